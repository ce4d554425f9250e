package world

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/yaml"

	podexecv1 "github.com/podstream/podstream/proto/podexec/v1"
	"github.com/podstream/podstream/test/devnode"
)

// pod is a pod of a test: one manifest, and the state of its pod.
type pod struct {
	t *testing.T
	b *bench
	// name is the pod's name with the node's suffix. file is the manifest's file name.
	name, file string
	namespace  string
	// dir is a directory of the node for the pod's test.
	dir string
	// spec is the manifest's spec, with its defaults.
	spec v1.PodSpec
	// ctx bounds all calls for the pod, and another one those for its end.
	ctx context.Context
}

// newPod creates the directory. When the test ends, the pod is removed, and nothing of it may be left.
func newPod(t *testing.T, b *bench, name string) *pod {
	t.Helper()
	name = strings.Trim(strings.Map(func(r rune) rune {
		if r >= 'a' && r <= 'z' || r >= '0' && r <= '9' {
			return r
		}
		return '-'
	}, strings.ToLower(name)), "-")
	if _, taken := b.names.LoadOrStore(name, true); taken {
		t.Fatalf("there is a pod %s already", name)
	}
	ctx, cancel := context.WithTimeout(context.Background(), 2*patience)
	p := &pod{t: t, b: b, name: name + "-" + b.Name, file: name + ".yaml", namespace: "default", dir: b.Path("work", name), ctx: ctx}
	t.Cleanup(func() {
		cancel()
		// A pod that others' rows ran beside may have outlived its time.
		p.ctx, cancel = context.WithTimeout(context.Background(), patience)
		defer cancel()
		if t.Failed() {
			t.Logf("%s", p.describe())
		}
		if _, err := os.Stat(filepath.Join(b.Manifests, p.file)); err == nil {
			p.remove()
		}
		p.awaitGone()
		b.drop(p.name)
		b.names.Delete(name)
		check(t, os.RemoveAll(p.dir))
	})
	check(t, os.MkdirAll(p.dir, 0o755))
	return p
}

// ownNamespace puts the pod, before it is written, into a separate namespace.
func (p *pod) ownNamespace() { p.namespace = strings.TrimSuffix(p.file, ".yaml") }

// write writes the manifest, for the first time or again. Defaults of the spec: a grace period of 1 s; a container
// main, if it has none; the sample image, never pulled; no token; and the command inspect with the paths, for
// containers without command and arguments.
func (p *pod) write(meta, spec string, beside, paths []string) {
	p.t.Helper()
	known := strings.NewReplacer("{{dir}}", p.dir, "{{node}}", p.b.Name, "{{pod}}", p.name, "{{namespace}}", p.namespace,
		"{{guest}}", nodes.guest())
	pod := v1.Pod{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Pod"}}
	check(p.t, yaml.UnmarshalStrict([]byte(known.Replace(meta)), &pod.ObjectMeta))
	check(p.t, yaml.UnmarshalStrict([]byte(known.Replace(spec)), &pod.Spec))
	pod.Namespace, pod.Name = p.namespace, strings.TrimSuffix(p.name, "-"+p.b.Name)
	s := &pod.Spec
	if s.TerminationGracePeriodSeconds == nil {
		s.TerminationGracePeriodSeconds = ptr.To[int64](1)
	}
	if len(s.Containers) == 0 {
		s.Containers = []v1.Container{{Name: "main"}}
	}
	for _, list := range [][]v1.Container{s.InitContainers, s.Containers} {
		for i := range list {
			if list[i].Image == "" {
				list[i].Image, list[i].ImagePullPolicy = devnode.SampleImage, v1.PullNever
			}
			if len(list[i].Command) == 0 && len(list[i].Args) == 0 {
				list[i].Args = append([]string{"inspect"}, paths...)
			}
		}
	}
	p.spec = *s
	text, err := json.Marshal(pod)
	check(p.t, err)
	documents := make([]string, 0, len(beside)+1)
	for _, document := range beside {
		documents = append(documents, known.Replace(document))
	}
	check(p.t, p.b.Write(p.file, strings.Join(append(documents, string(text)), "\n---\n")+"\n"))
}

// inspectors returns the names of the containers that run inspect.
func (p *pod) inspectors() []string {
	var names []string
	for _, list := range [][]v1.Container{p.spec.InitContainers, p.spec.Containers} {
		for i := range list {
			if slices.Contains(list[i].Args, "inspect") || slices.Contains(list[i].Command, "inspect") {
				names = append(names, list[i].Name)
			}
		}
	}
	return names
}

// remove removes the manifest.
func (p *pod) remove() {
	p.t.Helper()
	check(p.t, p.b.Remove(p.file))
}

// await waits until the function is returns nil for the pod, and returns the pod. It fails early if podconfigd rejects
// the manifest.
func (p *pod) await(what string, is func(*v1.Pod) error) *v1.Pod {
	p.t.Helper()
	var found *v1.Pod
	p.awaitAll(what, func() error {
		if found = p.b.pod(p.name); found == nil {
			return p.missing()
		}
		return is(found)
	})
	return found
}

// missing returns the reason why podexecd doesn't have the pod.
func (p *pod) missing() error {
	lines, err := p.b.findings(p.ctx, p.file)
	if err != nil {
		return err
	}
	if len(lines) > 0 {
		return finalError{fmt.Errorf("podconfigd doesn't take the manifest: %q", lines)}
	}
	return errors.New("podexecd has no such pod")
}

func (p *pod) awaitAll(what string, is func() error) {
	p.t.Helper()
	ctx, cancel := context.WithTimeout(p.ctx, patience)
	defer cancel()
	if err := p.b.await(ctx, is); err != nil {
		p.t.Fatalf("%s: %v", what, err)
	}
}

// awaitGone waits until podexecd has removed the pod.
func (p *pod) awaitGone() {
	p.t.Helper()
	p.awaitAll("the end", func() error {
		if pod := p.b.pod(p.name); pod != nil {
			return fmt.Errorf("the pod is still there: %s", pod.Status.Phase)
		}
		return nil
	})
}

// awaitReady waits until all containers run, and returns the pod.
func (p *pod) awaitReady() *v1.Pod {
	p.t.Helper()
	return p.await("the pod is ready", func(pod *v1.Pod) error {
		if pod.Status.Phase == v1.PodFailed {
			return finalError{fmt.Errorf("the pod has failed: %s: %s", pod.Status.Reason, pod.Status.Message)}
		}
		for _, c := range pod.Status.Conditions {
			if c.Type == v1.PodReady && c.Status == v1.ConditionTrue {
				return nil
			}
		}
		return fmt.Errorf("it is %s", pod.Status.Phase)
	})
}

// awaitRefused waits until podconfigd has a finding about the manifest, or one of its documents, that contains the
// text.
func (p *pod) awaitRefused(text string) {
	p.t.Helper()
	p.awaitAll("the refusal", func() error {
		lines, err := p.b.findings(p.ctx, p.file)
		if err != nil || strings.Contains(strings.Join(lines, "\n"), text) {
			return err
		}
		return fmt.Errorf("podconfigd says %q; want %q", lines, text)
	})
}

// awaitEvents waits until the function are returns nil for the pod's events.
func (p *pod) awaitEvents(are func([]*podexecv1.PodEvent) error) {
	p.t.Helper()
	p.awaitAll("the events", func() error { return are(p.b.eventsOf(p.name)) })
}

// has expects an event with the reason, whose message contains all the texts.
func has(reason string, texts ...string) func([]*podexecv1.PodEvent) error {
	return func(events []*podexecv1.PodEvent) error {
		for _, e := range events {
			lacks := func(text string) bool { return !strings.Contains(e.GetMessage(), text) }
			if e.GetReason() == reason && !slices.ContainsFunc(texts, lacks) {
				return nil
			}
		}
		return fmt.Errorf("no event %s %q", reason, texts)
	}
}

// either expects what one of two functions expects.
func either(one, other func([]*podexecv1.PodEvent) error) func([]*podexecv1.PodEvent) error {
	return func(events []*podexecv1.PodEvent) error {
		err := one(events)
		if err == nil {
			return nil
		}
		if second := other(events); second != nil {
			return errors.Join(err, second)
		}
		return nil
	}
}

// unwarned returns an error if an event is a warning.
func unwarned(events []*podexecv1.PodEvent) error {
	for _, e := range events {
		if e.GetType() != v1.EventTypeNormal {
			return fmt.Errorf("it was warned of %s: %s", e.GetReason(), e.GetMessage())
		}
	}
	return nil
}

// waitsFor expects a container to wait with the reason, and all the texts in the message.
func waitsFor(container, reason string, texts ...string) func(*v1.Pod) error {
	return func(p *v1.Pod) error {
		w := statusOf(p, container).State.Waiting
		if w == nil || w.Reason != reason {
			return fmt.Errorf("%s is %+v; want it waiting for %s", container, statusOf(p, container).State, reason)
		}
		for _, text := range texts {
			if !strings.Contains(w.Message, text) {
				return fmt.Errorf("%s waits for %s with %q; want %q in it", container, w.Reason, w.Message, text)
			}
		}
		return nil
	}
}

// statusOf returns the status of a container, init container or ephemeral container. It is empty if there is none.
func statusOf(p *v1.Pod, container string) *v1.ContainerStatus {
	for _, list := range [][]v1.ContainerStatus{p.Status.InitContainerStatuses, p.Status.ContainerStatuses} {
		for i := range list {
			if list[i].Name == container {
				return &list[i]
			}
		}
	}
	return &v1.ContainerStatus{}
}

// describe returns the pod's status and events, to explain a failed test.
func (p *pod) describe() string {
	var b strings.Builder
	for _, e := range p.b.eventsOf(p.name) {
		fmt.Fprintf(&b, "event %s %s x%d: %s\n", e.GetLastTime().AsTime().Format("05.000"), e.GetReason(), e.GetCount(), e.GetMessage())
	}
	if pod := p.b.pod(p.name); pod != nil {
		fmt.Fprintf(&b, "status: %s\n", pod.Status.String())
	}
	return b.String()
}
