package execsvc

import (
	"math"
	"slices"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podstream/podstream/client"
	"github.com/podstream/podstream/internal/execsvc/decide/status"
	"github.com/podstream/podstream/internal/execsvc/loop/shutdown"
	"github.com/podstream/podstream/internal/execsvc/pod/podview"
)

// A runtime that hangs when it stops sandboxes, and pods that are deleted or evicted meanwhile, hold up neither the next
// group nor the machine. A grace period that is too short is 2 s, as in the kubelet, and one that is too long the group's.
func TestShutdownWithHungRuntime(t *testing.T) {
	n, m := newNode(t), newMachine(t)
	m.periods = shutdown.Periods(4*time.Second, time.Second)
	l := n.start()
	m.guard(l)
	negative, endless := withPriority(newPod("n", "negative", "file"), 0, -5), withPriority(newPod("e", "endless", "api"), math.MinInt32, math.MaxInt64)
	critical := withPriority(newPod("c", "critical", "file"), math.MaxInt32, 0)
	l.deliver(at(1, ops(change(client.Add, true, negative, critical), change(client.Add, true, endless))))
	ids := map[types.UID]string{}
	for _, pod := range []*v1.Pod{negative, endless, critical} {
		ids[pod.UID] = l.awaitRunning(pod.UID)
	}
	n.takeChanges()
	var calls []string
	stopped := func(call string) func() bool {
		return func() bool {
			calls = append(calls, n.takeChanges()...)
			return slices.Contains(calls, call)
		}
	}
	held, release := n.Hold(t, "StopPodSandbox", 0)
	defer release()
	began := time.Now()
	goesOn := m.shutdown(t)
	held()
	l.deliver(at(2, ops(change(client.Remove, true, endless))))
	l.Evict("n", 1, status.Failure{Reason: "Evicted"})
	eventually(t, "the critical pod is ended", stopped("StopContainer "+ids["c"]+" 2"))
	select {
	case <-goesOn:
	case <-time.After(30 * time.Second):
		t.Fatal("a hung runtime holds up the shutdown")
	}
	// Both groups, and the moment after them.
	if took := time.Since(began); took < 4*time.Second || took > 14*time.Second {
		t.Errorf("the shutdown took %v; want 7 s", took)
	}
	for _, call := range []string{"StopContainer " + ids["n"] + " 2", "StopContainer " + ids["e"] + " 3"} {
		if !stopped(call)() {
			t.Errorf("the calls are %q; want %s", calls, call)
		}
	}
	release()
	for _, uid := range []types.UID{"n", "c"} {
		l.await(uid, "is ended by the shutdown", isShutDown)
	}
	l.awaitGone("e")
	if slices.Contains(append(calls, n.takeChanges()...), "StartContainer") {
		t.Errorf("the calls are %q; want nothing started", calls)
	}
	m.login.Cancel()
	for _, uid := range []types.UID{"n", "c"} {
		l.await(uid, "runs again", func(p podview.Pod) bool { return p.Status != nil && p.Status.Phase == v1.PodRunning })
	}
}
