package execsvc

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	v1 "k8s.io/api/core/v1"

	"github.com/podstream/podstream/client"
	"github.com/podstream/podstream/internal/execsvc/admit"
	"github.com/podstream/podstream/internal/execsvc/board"
	"github.com/podstream/podstream/internal/execsvc/status"
)

const (
	shortMessage = "The node had condition: [MemoryPressure]. "
	lowMessage   = "The node was low on resource: memory. Threshold quantity: 100Mi, available: 50Mi. "
)

// press has the node be short of memory, or not any more, and the agent told.
func (l *life) press(short bool) {
	l.n.mu.Lock()
	l.n.pressure = admit.Refusal{}
	if short {
		l.n.pressure = admit.Refusal{Reason: "Evicted", Message: shortMessage, Passing: true}
	}
	l.n.mu.Unlock()
	l.PressureChanged()
}

func isKeptOut(p board.Pod) bool {
	return p.State == syncing && p.Status != nil && p.Status.Phase == v1.PodFailed && p.Status.Reason == "Evicted" && p.Status.Message == rejected+shortMessage
}

func isLow(p board.Pod) bool {
	return p.State == finished && p.Status.Phase == v1.PodFailed && p.Status.Reason == "Evicted" && p.Status.Message == lowMessage
}

// Under pressure no pod comes but a critical one; those that are here stay, a restart of the agent included. Once it is over they come at once.
func TestPressureKeepsPodsOut(t *testing.T) {
	n := newNode(t)
	l := n.start()
	l.deliver(at(1, ops(change(client.Add, true, newPod("here", "here", "file")))))
	here := l.awaitRunning("here")
	l.press(true)
	critical := newPod("c", "critical", "file")
	critical.Spec.PriorityClassName = "system-node-critical"
	l.deliver(at(2, ops(change(client.Add, true, newPod("f", "static", "file"), critical), change(client.Add, true, newPod("a", "web", "api")))))
	l.awaitRunning("c")
	l.await("f", "is kept out", isKeptOut)
	l.await("a", "is kept out", isKeptOut)
	l.stop()
	n.takeChanges()
	l = n.startFrom(l.store)
	if now := l.awaitRunning("here"); now != here {
		t.Errorf("container %s runs in place of %s", now, here)
	}
	l.await("f", "is kept out", isKeptOut)
	l.housekeep()
	n.wantUnchanged()
	l.press(false)
	l.awaitRunning("f")
	l.awaitRunning("a")
	if p, _ := l.shown("f"); p.Status.Reason != "" || p.Status.Message != "" {
		t.Errorf("the pod runs, and is shown with %q: %q", p.Status.Reason, p.Status.Message)
	}
}

// A static pod that pressure has evicted stays as it ended while that lasts, and begins anew after it.
func TestEvictedStaticPodWaitsForTheEndOfPressure(t *testing.T) {
	n := newNode(t)
	l := n.start()
	l.deliver(ops(change(client.Add, true, newPod("a", "web", "file"))))
	id := l.awaitRunning("a")
	l.press(true)
	why := status.Failure{Reason: "Evicted", Message: lowMessage, Disrupted: true}
	if !l.Evict("a", 3, why) || l.Evict("nobody", 3, why) {
		t.Error("what was evicted isn't told")
	}
	p := l.await("a", "is evicted", isLow)
	i := slices.IndexFunc(p.Status.Conditions, func(c v1.PodCondition) bool { return c.Type == v1.DisruptionTarget })
	if i < 0 || p.Status.Conditions[i].Reason != v1.PodReasonTerminationByKubelet || p.Status.Conditions[i].Status != v1.ConditionTrue {
		t.Errorf("conditions %v", p.Status.Conditions)
	}
	if !l.Gone("a") || l.Evict("a", 3, why) {
		t.Error("it has ended, and isn't taken to be gone")
	}
	if got := n.takeChanges(); !slices.ContainsFunc(got, func(c string) bool { return strings.HasPrefix(c, "StopContainer "+id) }) {
		t.Errorf("the runtime was told to %q", got)
	}
	l.housekeep()
	l.await("a", "stays evicted", isLow)
	n.wantUnchanged()
	l.press(false)
	l.begunAnew(id)
}

// The images of pods stay that are here or are to be, and of those that begin anew; what has ended for good needs none.
func TestImages(t *testing.T) {
	n := newNode(t)
	l := n.start()
	with := func(pod *v1.Pod, image string) *v1.Pod {
		pod.Spec.Containers[0].Image = image
		return pod
	}
	runs := with(newPod("a", "runs", "file"), "localhost/runs:1")
	runs.Spec.InitContainers = []v1.Container{{Name: "init", Image: "localhost/init:1", Args: []string{"exit", "0"}}}
	ended := with(newPod("e", "ended", "api", "exit", "0"), "localhost/ended:1")
	ended.Spec.RestartPolicy = v1.RestartPolicyNever
	evicted, waits := with(newPod("v", "evicted", "file"), "localhost/evicted:1"), with(newPod("p", "pulls", "file"), "slow/pulls:1h")
	l.deliver(ops(change(client.Add, true, runs, evicted, waits), change(client.Add, true, ended, withClaim(with(newPod("r", "refused", "api"), "localhost/refused:1")))))
	l.awaitRunning("a")
	l.awaitRunning("v")
	l.await("e", "has ended", func(p board.Pod) bool { return p.State == finished })
	l.press(true)
	l.Evict("v", 1, status.Failure{Reason: "Evicted", Message: lowMessage})
	l.await("v", "is evicted", isLow)
	want := []string{"localhost/evicted:1", "localhost/init:1", "localhost/refused:1", "localhost/runs:1", "slow/pulls:1h"}
	if diff := cmp.Diff(want, l.Images()); diff != "" {
		t.Errorf("images (-want +got):\n%s", diff)
	}
}

// When the disk runs full the containers go of pods that have ended, and these are known to have ended all the same, after a restart too.
func TestRemoveDead(t *testing.T) {
	n := newNode(t)
	l := n.start()
	ended := newPod("e", "ended", "api", "exit", "3")
	ended.Spec.RestartPolicy = v1.RestartPolicyNever
	l.deliver(at(1, ops(change(client.Add, true, ended), change(client.Add, true, newPod("a", "runs", "file")))))
	hasEnded := func(p board.Pod) bool {
		if p.State != finished || p.Status.Phase != v1.PodFailed || len(p.Status.ContainerStatuses) != 1 {
			return false
		}
		end := p.Status.ContainerStatuses[0].State.Terminated
		return end != nil && end.ExitCode == 3
	}
	l.await("e", "has ended", hasEnded)
	id := l.awaitRunning("a")
	eventually(t, "its container is gone", func() bool {
		if err := l.RemoveDead(t.Context()); err != nil {
			t.Fatal(err)
		}
		left, err := n.cri.ListContainers(t.Context(), nil)
		if err != nil {
			t.Fatal(err)
		}
		return len(left) == 1 && left[0].GetId() == id
	})
	l.housekeep()
	l.await("e", "is known to have ended", hasEnded)
	l.stop()
	n.takeChanges()
	l = n.startFrom(l.store)
	l.awaitRunning("a")
	l.housekeep()
	l.await("e", "is known to have ended", hasEnded)
	if got := n.takeChanges(); slices.Contains(got, "RunPodSandbox e") || slices.Contains(got, "StartContainer") {
		t.Errorf("the runtime was told to %q; want nothing started", got)
	}
}
