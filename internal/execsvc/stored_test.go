package execsvc

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/podstream/podstream/client"
	"github.com/podstream/podstream/internal/execsvc/loop/store"
	"github.com/podstream/podstream/internal/execsvc/pod/podview"
	podconfigv1 "github.com/podstream/podstream/proto/podconfig/v1"
)

// at returns the event with a cursor, as the stream has it.
func at(revision uint64, e client.Event) client.Event {
	e.Cursor = &podconfigv1.Cursor{InstanceId: "i", Revision: revision}
	return e
}

// After a start without podconfigd the pods of the store run: a running pod goes on, and an exited container is
// restarted.
func TestStoredPodsLiveWithoutPodconfigd(t *testing.T) {
	n := newNode(t)
	l := n.start()
	l.deliver(at(1, ops(change(client.Add, true, newPod("a", "web", "file"), newPod("b", "other", "file")))))
	a, b := l.awaitRunning("a"), l.awaitRunning("b")
	l.stop()
	n.takeChanges()
	if err := n.Server.ExitContainer(b, 1); err != nil {
		t.Fatal(err)
	}
	again := n.startFrom(l.store)
	if now := again.awaitRunning("a"); now != a {
		t.Errorf("container %s runs; want %s, which ran before", now, a)
	}
	again.await("b", "runs again", func(p podview.Pod) bool {
		return p.Status != nil && len(p.Status.ContainerStatuses) == 1 && p.Status.ContainerStatuses[0].State.Running != nil &&
			p.Status.ContainerStatuses[0].RestartCount == 1
	})
	again.housekeep()
	if got := n.takeChanges(); slices.ContainsFunc(got, func(c string) bool { return strings.HasPrefix(c, "Stop") || strings.HasPrefix(c, "Run") }) {
		t.Errorf("the calls were %q; want one container made and started, and nothing stopped", got)
	}
}

// A pod that has run to its end isn't run again after a restart, even if nothing of it is left in the runtime.
func TestEndedPodStaysEnded(t *testing.T) {
	n := newNode(t)
	l := n.start()
	pod := newPod("a", "job", "file", "exit", "0")
	pod.Spec.RestartPolicy = v1.RestartPolicyNever
	l.deliver(at(1, ops(change(client.Add, true, pod))))
	done := func(p podview.Pod) bool {
		return p.State == finished && p.Status != nil && p.Status.Phase == v1.PodSucceeded && len(p.Status.ContainerStatuses) == 1 &&
			p.Status.ContainerStatuses[0].State.Terminated != nil
	}
	l.await("a", "has ended", done)
	l.stop()
	n.Server.DropAll()
	n.takeChanges()
	again := n.startFrom(l.store)
	again.await("a", "is known to have ended", done)
	again.housekeep()
	n.wantUnchanged()
}

// A termination continues after a restart before its source is ready: with the rest of the grace period if the
// container has got its SIGTERM, and with the whole grace period if that is unknown.
func TestTerminationGoesOn(t *testing.T) {
	t.Run("no SIGTERM", func(t *testing.T) { terminationGoesOn(t, time.Hour, -1, "7") })
	t.Run("SIGTERM", func(t *testing.T) { terminationGoesOn(t, time.Hour, 3*time.Second, "4", "3") })
	t.Run("SIGTERM long ago", func(t *testing.T) { terminationGoesOn(t, time.Hour, time.Hour, "2") })
	// The grace period isn't longer if the clock was set back meanwhile.
	t.Run("in the future", func(t *testing.T) { terminationGoesOn(t, -time.Hour, -1, "7", "6") })
}

// terminationGoesOn stops an agent while it ends a pod, as if that were some time ago. The container got its SIGTERM
// that long before; if signaled is negative, it got none. The next agent must stop the container with one of these
// grace periods.
func terminationGoesOn(t *testing.T, ago, signaled time.Duration, want ...string) {
	n := newNode(t)
	l := n.start()
	pod := newPod("a", "web", "file")
	l.deliver(at(1, ops(change(client.Add, true, pod))))
	id := l.awaitRunning("a")
	n.takeChanges()
	var stopping atomic.Bool
	n.SetFault(func(_ context.Context, method string) error {
		if method != "StopContainer" {
			return nil
		}
		stopping.Store(true)
		return errors.New("the agent is killed before the call")
	})
	l.deliver(at(2, ops(change(client.Remove, true, pod))))
	eventually(t, "the container is to be stopped", stopping.Load)
	l.stop()
	n.takeChanges()
	n.SetFault(nil)
	opened, state, err := store.Open(store.Config{Path: l.store})
	if err != nil {
		t.Fatal(err)
	}
	if end, ok := state.Ends["a"]; !ok || !end.Removed || end.Deadline.IsZero() || len(state.Pods) != 0 {
		t.Fatalf("the store holds %+v and pods %v; want the end of pod a, and no pod", state.Ends, state.Pods)
	}
	ctx, cancel := context.WithCancel(t.Context())
	var running sync.WaitGroup
	running.Go(func() { opened.Run(ctx) })
	end := state.Ends["a"]
	end.Deadline = end.Deadline.Add(-ago)
	if err := opened.SetEnd(ctx, "a", end); err != nil {
		t.Fatal(err)
	}
	if signaled >= 0 {
		opened.SetStopping("a", id, time.Now().Add(-signaled))
	}
	cancel()
	running.Wait()
	again := n.startFrom(l.store)
	eventually(t, "the container is stopped", func() bool {
		return slices.ContainsFunc(n.seenChanges(), func(c string) bool { return strings.HasPrefix(c, "StopContainer ") })
	})
	again.awaitGone("a")
	got := n.takeChanges()
	if !slices.ContainsFunc(want, func(grace string) bool { return slices.Contains(got, "StopContainer "+id+" "+grace) }) {
		t.Errorf("the calls were %q; want the container stopped within %v s", got, want)
	}
	n.wantLeft(0, 0)
}
