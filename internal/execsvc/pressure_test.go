package execsvc

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	v1 "k8s.io/api/core/v1"

	"github.com/podstream/podstream/client"
	"github.com/podstream/podstream/internal/execsvc/decide/admit"
	"github.com/podstream/podstream/internal/execsvc/decide/status"
	"github.com/podstream/podstream/internal/execsvc/pod/podview"
)

const (
	shortMessage = "The node had condition: [MemoryPressure]. "
	lowMessage   = "The node was low on resource: memory. Threshold quantity: 100Mi, available: 50Mi. "
)

// press sets or clears memory pressure, and calls PressureChanged.
func (l *testAgent) press(short bool) {
	l.n.mu.Lock()
	l.n.pressure = admit.Rejection{}
	if short {
		l.n.pressure = admit.Rejection{Reason: "Evicted", Message: shortMessage, Transient: true}
	}
	l.n.mu.Unlock()
	l.PressureChanged()
}

func isKeptOut(p podview.Pod) bool {
	return p.State == syncing && p.Status != nil && p.Status.Phase == v1.PodFailed && p.Status.Reason == "Evicted" && p.Status.Message == admit.RejectedPrefix+shortMessage
}

func isLow(p podview.Pod) bool {
	return p.State == finished && p.Status.Phase == v1.PodFailed && p.Status.Reason == "Evicted" && p.Status.Message == lowMessage
}

// Under pressure only critical pods are admitted; admitted pods stay, also over a restart. After it, waiting pods are
// admitted at once.
func TestPressureRejectsPods(t *testing.T) {
	n := newNode(t)
	l := n.start()
	l.deliver(at(1, ops(change(client.Add, true, newPod("here", "here", "file")))))
	here := l.awaitRunning("here")
	l.press(true)
	critical := newPod("c", "critical", "file")
	critical.Spec.PriorityClassName = "system-node-critical"
	l.deliver(at(2, ops(change(client.Add, true, newPod("f", "static", "file"), critical), change(client.Add, true, newPod("a", "web", "api")))))
	l.awaitRunning("c")
	l.await("f", "is rejected", isKeptOut)
	l.await("a", "is rejected", isKeptOut)
	l.stop()
	n.takeChanges()
	l = n.startFrom(l.store)
	if now := l.awaitRunning("here"); now != here {
		t.Errorf("container %s runs in place of %s", now, here)
	}
	l.await("f", "is rejected", isKeptOut)
	l.housekeep()
	n.wantUnchanged()
	l.press(false)
	l.awaitRunning("f")
	l.awaitRunning("a")
	if p, _ := l.shown("f"); p.Status.Reason != "" || p.Status.Message != "" {
		t.Errorf("the pod runs, and is shown with %q: %q", p.Status.Reason, p.Status.Message)
	}
}

// A static pod that was evicted under pressure stays Failed while the pressure lasts, and starts again after it.
func TestEvictedStaticPodWaitsForTheEndOfPressure(t *testing.T) {
	n := newNode(t)
	l := n.start()
	l.deliver(ops(change(client.Add, true, newPod("a", "web", "file"))))
	id := l.awaitRunning("a")
	l.press(true)
	why := status.Failure{Reason: "Evicted", Message: lowMessage, Disrupted: true}
	if !l.Evict("a", 3, why) || l.Evict("unknown", 3, why) {
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
		t.Errorf("the calls were %q", got)
	}
	l.housekeep()
	l.await("a", "stays evicted", isLow)
	n.wantUnchanged()
	l.press(false)
	l.startedAgain(id)
}

// Images has those of desired and running pods, and of evicted pods that start again, but not those of ended pods.
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
	l.deliver(ops(change(client.Add, true, runs, evicted, waits), change(client.Add, true, ended, withCephFS(with(newPod("r", "rejected", "api"), "localhost/rejected:1")))))
	l.awaitRunning("a")
	l.awaitRunning("v")
	l.await("e", "has ended", func(p podview.Pod) bool { return p.State == finished })
	l.press(true)
	l.Evict("v", 1, status.Failure{Reason: "Evicted", Message: lowMessage})
	l.await("v", "is evicted", isLow)
	want := []string{"localhost/evicted:1", "localhost/init:1", "localhost/rejected:1", "localhost/runs:1", "slow/pulls:1h"}
	if diff := cmp.Diff(want, l.Images()); diff != "" {
		t.Errorf("images (-want +got):\n%s", diff)
	}
}

// When the disk fills, the containers of ended pods are removed. Their statuses stay, also after a restart.
func TestRemoveDead(t *testing.T) {
	n := newNode(t)
	l := n.start()
	ended := newPod("e", "ended", "api", "exit", "3")
	ended.Spec.RestartPolicy = v1.RestartPolicyNever
	l.deliver(at(1, ops(change(client.Add, true, ended), change(client.Add, true, newPod("a", "runs", "file")))))
	hasEnded := func(p podview.Pod) bool {
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
		left, err := n.CRI.ListContainers(t.Context(), nil)
		if err != nil {
			t.Fatal(err)
		}
		return len(left) == 1 && left[0].GetId() == id
	})
	l.housekeep()
	l.await("e", "is shown as ended", hasEnded)
	l.stop()
	n.takeChanges()
	l = n.startFrom(l.store)
	l.awaitRunning("a")
	l.housekeep()
	l.await("e", "is shown as ended", hasEnded)
	if got := n.takeChanges(); slices.Contains(got, "RunPodSandbox e") || slices.Contains(got, "StartContainer") {
		t.Errorf("the calls were %q; want nothing started", got)
	}
}
