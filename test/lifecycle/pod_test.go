package lifecycle

import (
	"encoding/json"
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
	// name is the name without the node's suffix.
	name string
	// dir is a directory of the node that is mounted in all containers as /log.
	dir string
	// beside are further documents of the manifest.
	beside []any
	// termHandlers are the containers whose command handles SIGTERM. Each first writes its name to the file begun.
	termHandlers []string
}

// run writes the manifest of a pod with the spec, in YAML, and these defaults: the sample image, which is never
// pulled, /log in all containers, a grace period of 2 s, and a probe timeout of 10 s, because the machine may be busy.
// The pod is removed when the test ends.
func (b *bench) run(t *testing.T, spec string, beside ...any) *pod {
	t.Helper()
	p := &pod{t: t, b: b, name: b.podName(t), beside: beside}
	p.dir = b.Path("work", p.name)
	check(t, os.MkdirAll(p.dir, 0o755))
	p.write(spec)
	t.Cleanup(func() {
		if _, err := os.Stat(filepath.Join(b.Manifests, p.file())); err == nil {
			p.remove()
		}
		if t.Failed() {
			t.Logf("pod %s:\n%s", p.name, p.describe())
		}
	})
	return p
}

// podName returns a unique name that contains the test's name.
func (b *bench) podName(t *testing.T) string {
	name := strings.Map(func(r rune) rune {
		if r >= 'a' && r <= 'z' || r >= '0' && r <= '9' {
			return r
		}
		return '-'
	}, strings.ToLower(strings.TrimPrefix(t.Name(), "Test")))
	return strings.Trim(name[:min(len(name), 40)], "-") + fmt.Sprintf("-%d", b.pods.Add(1))
}

func (p *pod) file() string { return p.name + ".yaml" }

// write writes the manifest, for the first time or again.
func (p *pod) write(spec string) {
	p.t.Helper()
	p.termHandlers = nil
	pod := v1.Pod{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Pod"}, ObjectMeta: metav1.ObjectMeta{Name: p.name}}
	check(p.t, yaml.UnmarshalStrict([]byte(spec), &pod.Spec))
	if pod.Spec.TerminationGracePeriodSeconds == nil {
		pod.Spec.TerminationGracePeriodSeconds = ptr.To[int64](2)
	}
	pod.Spec.Volumes = append(pod.Spec.Volumes, v1.Volume{
		Name: "log", VolumeSource: v1.VolumeSource{HostPath: &v1.HostPathVolumeSource{Path: p.dir}},
	})
	for _, list := range [][]v1.Container{pod.Spec.InitContainers, pod.Spec.Containers} {
		for i := range list {
			c := &list[i]
			if c.Image == "" {
				c.Image, c.ImagePullPolicy = devnode.SampleImage, v1.PullIfNotPresent
			}
			if len(c.Args) > 0 && (c.Args[0] == "on-term" || c.Args[0] == "ignore-term") {
				// The container handles SIGTERM only after its process has started.
				c.Args = append([]string{"seq", "append", "/log/begun", c.Name, ";"}, c.Args...)
				p.termHandlers = append(p.termHandlers, c.Name)
			}
			for _, probe := range []*v1.Probe{c.StartupProbe, c.LivenessProbe, c.ReadinessProbe} {
				if probe != nil && probe.TimeoutSeconds == 0 {
					probe.TimeoutSeconds = 10
				}
			}
			c.VolumeMounts = append(c.VolumeMounts, v1.VolumeMount{Name: "log", MountPath: "/log"})
		}
	}
	var documents []string
	for _, document := range append(slices.Clone(p.beside), pod) {
		text, err := json.Marshal(document)
		check(p.t, err)
		documents = append(documents, string(text)+"\n")
	}
	check(p.t, p.b.Write(p.file(), strings.Join(documents, "---\n")))
}

// remove removes the manifest.
func (p *pod) remove() {
	p.t.Helper()
	check(p.t, p.b.Remove(p.file()))
}

// states returns the pod's states that podexecd has sent, oldest first.
func (p *pod) states() []state { return p.b.statesOf(p.name) }

// now returns the newest state of the existing pods of that name. Its field gone is set if there is none.
func (p *pod) now() state {
	p.t.Helper()
	all := p.states()
	gone := map[string]bool{}
	for _, s := range slices.Backward(all) {
		switch {
		case s.gone:
			gone[s.uid] = true
		case !gone[s.uid]:
			return s
		}
	}
	if len(all) > 0 {
		return all[len(all)-1]
	}
	return state{}
}

// await waits for a state for which is returns true, and returns it.
func (p *pod) await(what string, is func(s *state) bool) state {
	p.t.Helper()
	seen := 0
	var found state
	eventually(p.t, what, func() error {
		all := p.states()
		for ; seen < len(all); seen++ {
			if is(&all[seen]) {
				found = all[seen]
				return nil
			}
		}
		return fmt.Errorf("%d states", seen)
	})
	return found
}

// awaitNow is await for the current state. Earlier states don't count.
func (p *pod) awaitNow(what string, is func(s *state) bool) state {
	p.t.Helper()
	var found state
	eventually(p.t, what, func() error {
		if found = p.now(); !is(&found) {
			return fmt.Errorf("the state is another one")
		}
		return nil
	})
	return found
}

// awaitReady waits until the pod is ready, and its containers that handle SIGTERM have started.
func (p *pod) awaitReady() state {
	p.t.Helper()
	s := p.awaitNow("the pod is ready", func(s *state) bool { return s.is(v1.PodReady) })
	eventually(p.t, fmt.Sprintf("%q have started", p.termHandlers), func() error {
		begun := p.lines("begun")
		if i := slices.IndexFunc(p.termHandlers, func(name string) bool { return !slices.Contains(begun, name) }); i >= 0 {
			return fmt.Errorf("%s hasn't started", p.termHandlers[i])
		}
		return nil
	})
	return s
}

// awaitPhase waits until the pod is in the phase.
func (p *pod) awaitPhase(phase v1.PodPhase) state {
	p.t.Helper()
	return p.awaitNow("the pod is "+string(phase), func(s *state) bool { return s.Phase == phase })
}

// awaitGone waits until podexecd has removed the pod.
func (p *pod) awaitGone() {
	p.t.Helper()
	p.awaitNow("the pod is gone", func(s *state) bool { return s.gone })
}

// never fails the test if the pod was ever in such a state.
func (p *pod) never(what string, is func(s *state) bool) {
	p.t.Helper()
	for _, s := range p.states() {
		if is(&s) {
			p.t.Errorf("this happened, and must not: %s", what)
			return
		}
	}
}

// awaitEvent waits for an event with the reason whose message contains all the texts.
func (p *pod) awaitEvent(reason string, texts ...string) *podexecv1.PodEvent {
	p.t.Helper()
	var found *podexecv1.PodEvent
	eventually(p.t, fmt.Sprintf("event %s %q", reason, texts), func() error {
		if found = p.event(reason, texts...); found == nil {
			return fmt.Errorf("there is no such event")
		}
		return nil
	})
	return found
}

// event returns the last event with the reason whose message contains all the texts, or nil.
func (p *pod) event(reason string, texts ...string) *podexecv1.PodEvent {
	events := p.b.eventsOf(p.name)
	for _, e := range slices.Backward(events) {
		lacks := func(text string) bool { return !strings.Contains(e.GetMessage(), text) }
		if e.GetReason() == reason && !slices.ContainsFunc(texts, lacks) {
			return e
		}
	}
	return nil
}

// lines returns the lines that containers have written to the file.
func (p *pod) lines(file string) []string {
	content, err := os.ReadFile(filepath.Join(p.dir, file))
	if err != nil && !os.IsNotExist(err) {
		p.t.Error(err)
	}
	return strings.Fields(string(content))
}

// awaitLines waits until the containers have written these lines, each one word, to the file.
func (p *pod) awaitLines(file string, want ...string) {
	p.t.Helper()
	eventually(p.t, fmt.Sprintf("%s has the lines %q", file, want), func() error {
		if got := p.lines(file); !slices.Equal(got, want) {
			return fmt.Errorf("they are %q", got)
		}
		return nil
	})
}

// wrote fails the test unless the containers have written exactly these lines to the file.
func (p *pod) wrote(file string, want ...string) {
	p.t.Helper()
	if got := p.lines(file); !slices.Equal(got, want) {
		p.t.Errorf("%s has the lines %q; want %q", file, got, want)
	}
}

// touch creates a file that containers can read in /log.
func (p *pod) touch(file string) {
	p.t.Helper()
	check(p.t, os.WriteFile(filepath.Join(p.dir, file), nil, 0o644))
}

// untouch removes such a file.
func (p *pod) untouch(file string) {
	p.t.Helper()
	check(p.t, os.Remove(filepath.Join(p.dir, file)))
}

// describe returns the pod's states and events, to explain a failed test.
func (p *pod) describe() string {
	var b strings.Builder
	for _, e := range p.b.eventsOf(p.name) {
		fmt.Fprintf(&b, "event %s %s x%d: %s\n", e.GetLastTime().AsTime().Format("05.000"), e.GetReason(), e.GetCount(), e.GetMessage())
	}
	for _, s := range p.states() {
		fmt.Fprintf(&b, "state %s\n", s.String())
	}
	now := p.now()
	status, err := yaml.Marshal(now.PodStatus)
	if err != nil {
		return err.Error()
	}
	fmt.Fprintf(&b, "status:\n%s", status)
	files, err := os.ReadDir(p.dir)
	if err != nil {
		return err.Error()
	}
	for _, f := range files {
		fmt.Fprintf(&b, "%s: %q\n", f.Name(), p.lines(f.Name()))
	}
	return b.String()
}
