package execsvc

import (
	"testing"

	v1 "k8s.io/api/core/v1"

	"github.com/podstream/podstream/client"
	"github.com/podstream/podstream/internal/execsvc/pod/podtest"
	"github.com/podstream/podstream/internal/execsvc/pod/podview"
)

// A pod that is terminating during a restart keeps its capacity until it has ended.
func TestTerminatingPodKeepsItsCapacityAfterRestart(t *testing.T) {
	n := newNode(t)
	n.allocatable = podtest.Amounts("2", "1Gi")
	l := n.start()
	old := sized("old", 1, "2", "256Mi")
	l.deliver(at(1, ops(change(client.Add, true, old))))
	l.awaitRunning("old")
	stopping, release := n.Hold(t, "StopContainer", 0)
	l.deliver(at(2, ops(change(client.Remove, true, old))))
	stopping()
	l.stop()
	again := n.startFrom(l.store)
	again.deliver(at(3, ops(change(client.Add, true, sized("new", 1, "2", "256Mi")))))
	again.await("new", "is admitted or rejected", func(p podview.Pod) bool { return p.Status != nil })
	if p, _ := again.shown("new"); p.Status.Reason != "OutOfcpu" {
		t.Errorf("it has %v %q while the other one runs; want it rejected", p.Status.Phase, p.Status.Reason)
	}
	release()
	again.awaitRunning("new")
}

// A pod that runs since before the restart, and isn't in the store, is admitted before the pods that arrive with it.
func TestRunningPodIsAdmittedFirst(t *testing.T) {
	n := newNode(t)
	n.allocatable = podtest.Amounts("2", "1Gi")
	old := sized("old", 1, "2", "256Mi")
	id := n.leave(old)[0]
	l := n.start()
	l.deliver(ops(change(client.Add, true, sized("new", 1, "2", "256Mi"), old)))
	l.await("new", "is rejected", func(p podview.Pod) bool { return p.Status != nil && p.Status.Reason == "OutOfcpu" })
	if now := l.awaitRunning("old"); now != id {
		t.Errorf("container %s runs in place of %s", now, id)
	}
}

// A pod that doesn't run any more after a reboot, and doesn't fit, is rejected.
func TestPodThatDoesNotFitAfterReboot(t *testing.T) {
	n := newNode(t)
	n.allocatable = podtest.Amounts("2", "1Gi")
	l := n.start()
	old := sized("old", 1, "2", "256Mi")
	l.deliver(at(1, ops(change(client.Add, true, old))))
	l.awaitRunning("old")
	l.stop()
	boxes, err := n.CRI.ListPodSandbox(t.Context(), nil)
	if err != nil || len(boxes) != 1 {
		t.Fatal(boxes, err)
	}
	if err := n.CRI.StopPodSandbox(t.Context(), boxes[0].GetId()); err != nil {
		t.Fatal(err)
	}
	n.allocatable = podtest.Amounts("1", "1Gi")
	again := n.startFrom(l.store)
	p := again.await("old", "is rejected", func(p podview.Pod) bool {
		return p.Status != nil && p.Err != nil || p.Status != nil && p.Status.Reason == "OutOfcpu"
	})
	if p.Err != nil || p.Status.Phase != v1.PodFailed {
		t.Errorf("phase %s, reason %q, error %v", p.Status.Phase, p.Status.Reason, p.Err)
	}
}
