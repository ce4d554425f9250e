package execsvc

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/podstream/podstream/client"
	"github.com/podstream/podstream/internal/execsvc/board"
	"github.com/podstream/podstream/internal/execsvc/store"
	podconfigv1 "github.com/podstream/podstream/proto/podconfig/v1"
)

// at is the event with a cursor, as the stream brings it.
func at(revision uint64, e client.Event) client.Event {
	e.Cursor = &podconfigv1.Cursor{InstanceId: "i", Revision: revision}
	return e
}

// A start without podconfigd keeps the pods of the store alive: one that runs goes on, and one whose container has ended meanwhile is
// started again.
func TestStoredPodsLiveWithoutPodconfigd(t *testing.T) {
	n := newNode(t)
	l := n.start()
	l.deliver(at(1, ops(change(client.Add, true, newPod("a", "web", "file"), newPod("b", "other", "file")))))
	a, b := l.awaitRunning("a"), l.awaitRunning("b")
	l.stop()
	n.takeChanges()
	if err := n.server.ExitContainer(b, 1); err != nil {
		t.Fatal(err)
	}
	again := n.startFrom(l.store)
	if now := again.awaitRunning("a"); now != a {
		t.Errorf("container %s runs; want %s, which ran before", now, a)
	}
	again.await("b", "runs again", func(p board.Pod) bool {
		return p.Status != nil && len(p.Status.ContainerStatuses) == 1 && p.Status.ContainerStatuses[0].State.Running != nil &&
			p.Status.ContainerStatuses[0].RestartCount == 1
	})
	again.housekeep()
	if got := n.takeChanges(); slices.ContainsFunc(got, func(c string) bool { return strings.HasPrefix(c, "Stop") || strings.HasPrefix(c, "Run") }) {
		t.Errorf("the runtime was told to %q; want one container made and started, and nothing stopped", got)
	}
}

// A pod that has run to its end isn't run again by the next life, even if nothing of it is left in the runtime.
func TestEndedPodStaysEnded(t *testing.T) {
	n := newNode(t)
	l := n.start()
	pod := newPod("a", "job", "file", "exit", "0")
	pod.Spec.RestartPolicy = v1.RestartPolicyNever
	l.deliver(at(1, ops(change(client.Add, true, pod))))
	done := func(p board.Pod) bool {
		return p.State == finished && p.Status != nil && p.Status.Phase == v1.PodSucceeded && len(p.Status.ContainerStatuses) == 1 &&
			p.Status.ContainerStatuses[0].State.Terminated != nil
	}
	l.await("a", "has ended", done)
	l.stop()
	n.server.Forget()
	n.takeChanges()
	again := n.startFrom(l.store)
	again.await("a", "is known to have ended", done)
	again.housekeep()
	n.wantUnchanged()
}

// A termination that was under way goes on in the next life, though its source hasn't spoken: with what is left of the grace period if
// the container has had its SIGTERM, and with all of it, however long ago the pod was to end, if nobody knows.
func TestTerminationGoesOn(t *testing.T) {
	t.Run("not told", func(t *testing.T) { terminationGoesOn(t, -1, "7") })
	t.Run("told", func(t *testing.T) { terminationGoesOn(t, 3*time.Second, "4", "3") })
	t.Run("told long ago", func(t *testing.T) { terminationGoesOn(t, time.Hour, "2") })
}

// terminationGoesOn has an agent die an hour ago, as it ended a pod whose container had its SIGTERM that long ago, if that isn't negative,
// and wants the next one to stop it with one of these grace periods.
func terminationGoesOn(t *testing.T, told time.Duration, want ...string) {
	n := newNode(t)
	l := n.start()
	pod := newPod("a", "web", "file")
	l.deliver(at(1, ops(change(client.Add, true, pod))))
	id := l.awaitRunning("a")
	n.takeChanges()
	stopping := make(chan struct{}, 1)
	n.setFault(func(_ context.Context, method string) error {
		if method != "StopContainer" {
			return nil
		}
		select {
		case stopping <- struct{}{}:
		default:
		}
		return errors.New("it dies before the runtime hears of it")
	})
	l.deliver(at(2, ops(change(client.Remove, true, pod))))
	<-stopping
	l.stop()
	n.takeChanges()
	n.setFault(nil)
	remembered, state, err := store.Open(store.Config{Path: l.store})
	if err != nil {
		t.Fatal(err)
	}
	if end, ok := state.Ends["a"]; !ok || !end.Removed || end.Deadline.IsZero() || len(state.Pods) != 0 {
		t.Fatalf("the store holds %+v and pods %v; want the end of pod a, and no pod", state.Ends, state.Pods)
	}
	ctx, cancel := context.WithCancel(t.Context())
	var running sync.WaitGroup
	running.Go(func() { remembered.Run(ctx) })
	end := state.Ends["a"]
	end.Deadline = end.Deadline.Add(-time.Hour)
	if err := remembered.SetEnd(ctx, "a", end); err != nil {
		t.Fatal(err)
	}
	if told >= 0 {
		remembered.SetTold("a", id, time.Now().Add(-told))
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
		t.Errorf("the runtime was told to %q; want the container stopped within %v s", got, want)
	}
	n.wantLeft(0, 0)
}
