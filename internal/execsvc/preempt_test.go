package execsvc

import (
	"slices"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podstream/podstream/client"
	"github.com/podstream/podstream/internal/execsvc/pod/events"
	"github.com/podstream/podstream/internal/execsvc/pod/podtest"
	"github.com/podstream/podstream/internal/execsvc/pod/podview"
)

// preempted returns the pods that were preempted.
func (l *testAgent) preempted() []string {
	all, _, _ := l.events.After(0)
	var got []string
	for _, e := range all {
		if e.Reason == events.Preempting {
			got = append(got, string(e.UID))
		}
	}
	slices.Sort(got)
	return got
}

// awaitOutOfCPU waits until the pod is rejected because of its CPU requests.
func (l *testAgent) awaitOutOfCPU(pod *v1.Pod) {
	l.n.t.Helper()
	l.await(pod.UID, "is rejected", func(p podview.Pod) bool { return p.Status != nil && p.Status.Reason == "OutOfcpu" })
}

// The capacity of preempted pods is not given to other waiting pods, also not after a restart; and they are preempted
// once.
func TestPreemptionReservesCapacity(t *testing.T) {
	for name, restart := range map[string]bool{"without restart": false, "with restart": true} {
		t.Run(name, func(t *testing.T) {
			n := newNode(t)
			n.allocatable = podtest.Amounts("2", "1Gi")
			l := n.start()
			waits, critical := sized("w", 1, "1", "256Mi"), static(sized("c", 0, "2", "256Mi"))
			l.deliver(at(1, ops(change(client.Add, true, sized("v1", 1, "1", "256Mi"), sized("v2", 1, "1", "256Mi")))))
			l.awaitRunning("v1")
			l.awaitRunning("v2")
			l.deliver(at(2, ops(change(client.Add, true, waits))))
			l.awaitOutOfCPU(waits)
			stopping, release := n.Hold(t, "StopContainer", 1)
			l.deliver(at(3, ops(change(client.Add, true, critical))))
			stopping()
			eventually(t, "one of them has ended", func() bool {
				first, _ := l.shown("v1")
				second, _ := l.shown("v2")
				return first.State == finished || second.State == finished
			})
			if got := l.preempted(); !slices.Equal(got, []string{"v1", "v2"}) {
				t.Errorf("%q were ended; want both", got)
			}
			if restart {
				l.stop()
				l = n.startFrom(l.store)
				l.await("c", "waits", func(p podview.Pod) bool { return p.Err != nil })
			}
			l.housekeep()
			release()
			id := l.awaitRunning("c")
			l.housekeep()
			if now := l.awaitRunning("c"); now != id {
				t.Errorf("container %s runs in place of %s", now, id)
			}
			if got := n.seenChanges(); slices.Contains(got, "RunPodSandbox w") {
				t.Errorf("the calls were %q; want the other pod to wait", got)
			}
			if got := l.preempted(); restart && len(got) > 0 || !restart && len(got) != 2 {
				t.Errorf("%q were ended; want both once", got)
			}
			l.deliver(at(4, ops(change(client.Remove, true, critical))))
			l.awaitRunning("w")
		})
	}
}

// If a critical pod is removed before it is admitted, the capacity of its victims is for the other waiting pods.
func TestCriticalPodIsRemovedBeforeAdmission(t *testing.T) {
	n := newNode(t)
	n.allocatable = podtest.Amounts("2", "1Gi")
	l := n.start()
	victim, waits, critical := sized("v", 1, "2", "256Mi"), sized("w", 1, "1", "256Mi"), static(sized("c", 0, "2", "256Mi"))
	l.deliver(ops(change(client.Add, true, victim)))
	l.awaitRunning("v")
	l.deliver(ops(change(client.Add, true, waits)))
	l.awaitOutOfCPU(waits)
	stopping, release := n.Hold(t, "StopContainer", 0)
	l.deliver(ops(change(client.Add, true, critical)))
	stopping()
	l.deliver(ops(change(client.Remove, true, critical)))
	l.awaitGone("c")
	release()
	l.awaitRunning("w")
	p, _ := l.shown("v")
	if p.Status.Reason != events.Preempting {
		t.Errorf("the preempted pod has ended with %q", p.Status.Reason)
	}
	// Its controller must see that the pod was disrupted.
	c := conditionOf(p.Status, v1.DisruptionTarget)
	if c == nil || c.Status != v1.ConditionTrue || c.Reason != v1.PodReasonTerminationByKubelet ||
		c.Message != "Pod was preempted by Kubelet to accommodate a critical pod." {
		t.Errorf("the preempted pod has the condition %+v; want it disrupted by the node", c)
	}
}

// Of pods that arrive together, the oldest ones that fit are admitted, and the others wait.
func TestPodsOfOneBatch(t *testing.T) {
	n := newNode(t)
	n.allocatable = podtest.Amounts("3", "1Gi")
	l := n.start()
	var batch []*v1.Pod
	for i, uid := range []string{"f", "e", "d", "c", "b", "a"} {
		batch = append(batch, aged(sized(types.UID(uid), 1, "1", "64Mi"), time.Duration(i)*time.Minute))
	}
	batch[2] = static(sized("d", 0, "1", "64Mi"))
	shuffled := slices.Clone(batch)
	slices.Reverse(shuffled)
	l.deliver(ops(change(client.Add, true, shuffled...)))
	for _, uid := range []types.UID{"f", "e", "d"} {
		l.awaitRunning(uid)
	}
	for _, pod := range batch[3:] {
		l.awaitOutOfCPU(pod)
	}
	l.deliver(ops(change(client.Remove, true, batch[0])))
	l.awaitRunning("c")
}
