package usage

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"maps"
	"net/http"
	"os"
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/podstream/podstream/test/cluster/control"
	"github.com/podstream/podstream/test/rig"
)

// absence is the time for which the API server is away in TestAPIServerAway.
var absence = flag.Duration("absence", 40*time.Second, "how `long` the API server is away in TestAPIServerAway, at least")

// hurried shortens a node's intervals from minutes to seconds.
func hurried(n *node) {
	n.Config = "nodeStatusUpdateFrequency: 1s\nnodeStatusReportFrequency: 5s\nnodeLeaseDurationSeconds: 8\n"
	n.PodexecdFlags = []string{"--crash-loop-backoff-base=500ms", "--crash-loop-backoff-max=4s"}
}

// A long outage of the API server stops nothing on the node: pods crash, end, become ready and unready, static
// pods are added, changed and removed, and both daemons die meanwhile. Afterwards the API server receives the
// present state, once, and nothing else happens.
func TestAPIServerAway(t *testing.T) {
	machine := newMachine(t, "away-machine", here.BinDir())
	n := newNode(t, "away", func(n *node) { n.Machine = machine }, hurried)
	s := newSpace(t, n)
	o := observe(t, n)
	rig.Must(t, os.MkdirAll(n.Path("work"), 0o777))
	work := fmt.Sprintf("terminationGracePeriodSeconds: 1, volumes: [{name: work, hostPath: {path: %q}}]", n.Path("work"))
	mount := ", volumeMounts: [{name: work, mountPath: /scratch}]"
	until := func(name string, code int) string {
		return shell(fmt.Sprintf("while [ ! -e /scratch/%s ]; do /sample sleep 200ms; done; exit %d", name, code)) + mount
	}
	n.write(t, "work/ready", "")
	s.applyPod(t, "steady", sampleImage, idle, "terminationGracePeriodSeconds: 1")
	s.applyPod(t, "goes", sampleImage, idle, "terminationGracePeriodSeconds: 1")
	s.applyPod(t, "crash", sampleImage, sample("exit", "1", "1s"), "terminationGracePeriodSeconds: 1")
	s.applyPod(t, "job", toolsImage, until("job", 0), "restartPolicy: Never, "+work)
	s.applyPod(t, "fails", toolsImage, until("fails", 6), "restartPolicy: Never, "+work)
	s.applyPod(t, "flips", sampleImage, sample("serve", ":8080", "--ready=/scratch/ready")+mount+
		", readinessProbe: {httpGet: {path: /ready, port: 8080}, periodSeconds: 1, failureThreshold: 1}", work)
	for _, name := range []string{"static", "leaves"} {
		n.addManifest(t, name, staticPodOf(name, s.name, "1"))
	}
	for _, name := range []string{"steady", "goes", "job", "fails", "flips", "static-away", "leaves-away"} {
		s.awaitReady(t, name)
	}
	steady := []string{"steady", "flips"}
	before := rig.Get(o.look(t.Context()))(t).ids(steady...)

	s.kubectl(t, "delete", "pod", "goes", "--wait=false")
	here.Plane.Kill()
	began := time.Now()
	t.Cleanup(func() { rig.Get(here.Plane.Client(context.Background()))(t) }) // others need it, whatever becomes of this
	ready := func(want bool) {
		t.Helper()
		if want {
			n.write(t, "work/ready", "")
		} else {
			rig.Must(t, os.Remove(n.Path("work", "ready")))
		}
		o.awaitShown(t, "flips", fmt.Sprintf("has Ready=%t", want), func(status *corev1.PodStatus) error {
			return when(status != nil && isTrue(status, corev1.PodReady) == want)
		})
	}
	crashes := func() int32 {
		t.Helper()
		most := uint32(0)
		_, containers, err := o.runtime(t.Context())
		rig.Must(t, err)
		for _, c := range containers {
			if c.GetLabels()["io.kubernetes.pod.name"] == "crash" {
				most = max(most, c.GetMetadata().GetAttempt())
			}
		}
		return int32(most)
	}
	crashed := crashes()
	ended := func(name string, phase corev1.PodPhase, code int32) {
		t.Helper()
		n.write(t, "work/"+name, "")
		o.awaitShown(t, name, "is "+string(phase), func(status *corev1.PodStatus) error {
			return when(status != nil && status.Phase == phase && status.ContainerStatuses[0].State.Terminated.ExitCode == code)
		})
	}
	gone := func(name string) {
		t.Helper()
		o.awaitShown(t, name, "is gone", func(status *corev1.PodStatus) error { return when(status == nil) })
	}
	runs := func(name string) {
		t.Helper()
		o.awaitShown(t, name, "is ready", func(status *corev1.PodStatus) error { return when(status != nil && isTrue(status, corev1.PodReady)) })
	}
	more := func(what string) {
		t.Helper()
		from := crashes()
		rig.Must(t, control.Until(t.Context(), nil, "the crashing pod is restarted twice "+what, func(context.Context) error { return when(crashes() >= from+2) }))
	}
	ended("job", corev1.PodSucceeded, 0)
	ready(false)
	more("while the API server is away")
	n.addManifest(t, "added", staticPodOf("added", s.name, "1"))
	runs("added-away")
	rig.Must(t, n.Podexecd.Kill())
	n.removeManifest(t, "leaves")
	rig.Must(t, n.Podexecd.Start())
	gone("leaves-away")
	more("by a new podexecd")
	ended("fails", corev1.PodFailed, 6)
	rig.Must(t, n.Podconfigd.Kill())
	n.addManifest(t, "static", staticPodOf("static", s.name, "2"))
	rig.Must(t, n.Podconfigd.Start())
	o.awaitShown(t, "static-away", "has another container", func(status *corev1.PodStatus) error {
		if status == nil || !isTrue(status, corev1.PodReady) {
			return errNo
		}
		_, containers, err := o.runtime(t.Context())
		if err != nil {
			return err
		}
		for _, c := range containers { // the old one's container is removed with it
			if c.GetLabels()["io.kubernetes.pod.name"] == "static-away" && "containerd://"+c.GetId() != status.ContainerStatuses[0].ContainerID {
				return errNo
			}
		}
		return nil
	})
	for flips := true; time.Since(began) < *absence; flips = !flips {
		ready(flips)
	}
	local := &view{}
	rig.Must(t, o.local(t.Context(), local))
	if got := local.ids(steady...); !maps.Equal(got, before) {
		t.Errorf("while the API server was away the containers were %v; want %v still", got, before)
	}
	steady = append(steady, "static-away", "added-away")
	before = local.ids(steady...)
	away, crashed := time.Since(began), crashes()-crashed

	returning := time.Now()
	rig.Must(t, here.Plane.Resume(t.Context()))
	returned := time.Now()
	v, err := o.settled(t.Context(), time.Minute)
	if err != nil {
		t.Fatal(err)
	}
	equal := time.Since(returned)
	more("when the API server is back")
	lease := n.awaitRenewed(t, returning)
	rig.Must(t, n.AwaitReady(t.Context()))
	s.awaitGone(t, "goes")
	if got := v.ids(steady...); !maps.Equal(got, before) || len(got) != len(steady) {
		t.Errorf("once the API server was back the containers are %v; want %v still", got, before)
	}
	s.wantEnd(t, "job", corev1.PodSucceeded, 0)
	s.wantEnd(t, "fails", corev1.PodFailed, 6)
	if second := s.awaitReady(t, "static-away"); second.Labels["version"] != "2" {
		t.Errorf("the static pod that was changed meanwhile has the mirror pod %v", second.Labels)
	}
	t.Logf("the API server was away for %v, in which the crashing pod was restarted %d times", away.Round(time.Second), crashed)
	t.Logf("its statuses equal podexecd's %v after it is ready, the node's lease was renewed %v after its start", equal.Round(time.Millisecond), lease.Round(time.Millisecond))
	t.Logf("the last difference was: %.600v", o.differed)
	patches := n.statusPatches(t, s.name, returning)
	for _, name := range slices.Sorted(maps.Keys(patches)) {
		t.Logf("pod %-12s %d status patches", name, patches[name])
		// A new mirror pod has two patches, of which the first may be early.
		if name != "crash" && patches[name] > 3 {
			t.Errorf("pod %s has %d status patches", name, patches[name])
		}
	}
	s.wantEventsOnce(t, "steady", "job", "fails", "flips")
}

// staticPodOf is staticPod with another name.
func staticPodOf(name, namespace, version string) string {
	return fmt.Sprintf(`
apiVersion: v1
kind: Pod
metadata: {name: %q, namespace: %q, labels: {version: %q}}
spec: {terminationGracePeriodSeconds: 1, containers: [{name: main, image: %q, %s}]}
`, name, namespace, version, sampleImage, sample("print", "version", version))
}

// awaitRenewed waits until the node's lease has been renewed after that time, and returns the delay.
func (n *node) awaitRenewed(t *testing.T, after time.Time) (took time.Duration) {
	t.Helper()
	rig.Must(t, untilNil(t, "the node's lease is renewed", func() error {
		for _, r := range n.requests(t, after) {
			if r.what == "update leases" && r.code == http.StatusOK {
				took = r.at.Sub(after)
				return nil
			}
		}
		return errNo
	}))
	return took
}

// wantEnd checks the reported end of a pod.
func (s *space) wantEnd(t *testing.T, name string, phase corev1.PodPhase, code int32) {
	t.Helper()
	pod := rig.Get(s.site.Client.CoreV1().Pods(s.name).Get(t.Context(), name, metav1.GetOptions{}))(t)
	if ended := pod.Status.ContainerStatuses[0].State.Terminated; pod.Status.Phase != phase || ended == nil || ended.ExitCode != code {
		t.Errorf("pod %s is %s; want it %s with code %d", name, describe(pod), phase, code)
	}
}

// wantEventsOnce checks that what happens once to a pod has at most one event.
func (s *space) wantEventsOnce(t *testing.T, names ...string) {
	t.Helper()
	list := rig.Get(s.site.Client.CoreV1().Events(s.name).List(t.Context(), metav1.ListOptions{}))(t)
	count := map[string]int32{}
	for _, e := range list.Items {
		key := e.InvolvedObject.Name + " " + e.Reason
		count[key] += max(e.Count, 1)
		once := slices.Contains([]string{"Scheduled", "Pulled", "Created", "Started", "Killing"}, e.Reason)
		if once && slices.Contains(names, e.InvolvedObject.Name) && count[key] > 1 {
			t.Errorf("pod %s has %d events %s", e.InvolvedObject.Name, count[key], e.Reason)
		}
	}
	if len(list.Items) == 0 {
		t.Error(errors.New("there are no events"))
	}
}
