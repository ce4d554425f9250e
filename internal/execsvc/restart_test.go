package execsvc

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"

	"github.com/podstream/podstream/client"
	"github.com/podstream/podstream/internal/execsvc/loop/store"
	"github.com/podstream/podstream/internal/execsvc/pod/podview"
)

// stored returns the state of the store of an agent that was stopped.
func stored(t *testing.T, path string) store.State {
	t.Helper()
	s, state, err := store.Open(store.Config{Path: path})
	if err != nil {
		t.Fatal(err)
	}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	s.Run(ended)
	return state
}

// A pod that has ended, is removed, and is added again with its UID before it is purged, runs again, also if the agent
// is restarted before that.
func TestRestartBetweenRemovalAndAddition(t *testing.T) {
	n := newNode(t)
	l := n.start()
	pod := newPod("a", "job", "file", "exit", "0")
	pod.Spec.RestartPolicy = v1.RestartPolicyNever
	l.deliver(at(1, ops(change(client.Add, true, pod))))
	l.await("a", "has ended", func(p podview.Pod) bool { return p.State == finished && p.Status.Phase == v1.PodSucceeded })
	n.SetFault(func(_ context.Context, method string) error {
		if method == "RemoveContainer" {
			return errors.New("not now")
		}
		return nil
	})
	l.deliver(at(2, ops(change(client.Remove, true, pod))))
	l.deliver(at(3, ops(change(client.Add, true, pod))))
	l.await("a", "can't be removed", func(p podview.Pod) bool { return p.Err != nil })
	l.stop()
	n.SetFault(nil)
	n.takeChanges()
	again := n.startFrom(l.store)
	eventually(t, "the pod runs again", func() bool {
		return strings.Contains(strings.Join(n.seenChanges(), ","), "RemovePodSandbox,RunPodSandbox a,CreateContainer,StartContainer")
	})
	again.await("a", "has ended again", func(p podview.Pod) bool { return p.State == finished && p.Status.Phase == v1.PodSucceeded })
}

// A pod that is replaced under its UID ends and starts again, also if the agent is killed as soon as the store has the
// event.
func TestKilledBetweenStoreAndLoop(t *testing.T) {
	n := newNode(t)
	l := n.start()
	pod := newPod("a", "web", "file")
	l.deliver(at(1, ops(change(client.Add, true, pod))))
	id := l.awaitRunning("a")
	other := newPod("a", "other", "file")
	e := at(2, ops(change(client.Remove, true, pod), change(client.Add, true, other)))
	ends := l.ends(e)
	l.stop()
	s, _, err := store.Open(store.Config{Path: l.store})
	if err != nil {
		t.Fatal(err)
	}
	s.Apply(e, ends...)
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	s.Run(ended)
	n.takeChanges()
	again := n.startFrom(l.store)
	again.await("a", "runs as the new pod", func(p podview.Pod) bool {
		return p.Name == "other" && p.State == syncing && p.Status != nil && p.Status.Phase == v1.PodRunning
	})
	got := n.takeChanges()
	wantStopThenRun(t, got, got[0], "RunPodSandbox a")
	if !strings.HasPrefix(got[0], "StopContainer "+id+" ") {
		t.Errorf("the calls were %q; want the old container stopped first", got)
	}
	n.wantLeft(1, 1)
}

// A container that was stopped because its pod needs another sandbox runs again, also if it ended well and the agent is
// restarted before its successor is made.
func TestRestartBetweenStopAndSuccessor(t *testing.T) {
	n := newNode(t)
	l := n.start()
	pod := newPod("a", "web", "file", "on-term", "/told", "x", "0s", "0")
	pod.Spec.RestartPolicy = v1.RestartPolicyOnFailure
	l.deliver(at(1, ops(change(client.Add, true, pod))))
	first := l.awaitRunning("a")
	n.takeChanges()
	n.SetFault(func(_ context.Context, method string) error {
		if method == "RunPodSandbox" {
			return errors.New("not now")
		}
		return nil
	})
	other := pod.DeepCopy()
	other.Spec.HostNetwork = true
	l.deliver(at(2, ops(change(client.Update, true, other))))
	eventually(t, "a new sandbox is tried", func() bool { return slices.Contains(n.seenChanges(), "RunPodSandbox a") })
	l.stop()
	if state := stored(t, l.store); !slices.Equal(state.Statuses["a"].Replaced, []string{first}) {
		t.Errorf("the store has %q; want %q", state.Statuses["a"].Replaced, first)
	}
	n.SetFault(nil)
	again := n.startFrom(l.store)
	again.await("a", "runs again", func(p podview.Pod) bool {
		return p.Status.Phase == v1.PodRunning && len(p.Status.ContainerStatuses) == 1 && p.Status.ContainerStatuses[0].RestartCount == 1 &&
			p.Status.ContainerStatuses[0].State.Running != nil
	})
}

// At a start, the statuses of unknown pods are deleted from the store.
func TestStatusesOfUnknownPodsAreDeleted(t *testing.T) {
	n := newNode(t)
	l := n.start()
	pod := newPod("a", "web", "file")
	l.deliver(at(1, ops(change(client.Add, true, pod))))
	l.awaitRunning("a")
	l.cfg.Store.SetStatus("b", &v1.PodStatus{Phase: v1.PodRunning}, l.cfg.Clock.Now())
	l.stop()
	if state := stored(t, l.store); len(state.Statuses) != 2 {
		t.Fatalf("the store has %d statuses; want 2", len(state.Statuses))
	}
	again := n.startFrom(l.store)
	again.awaitRunning("a")
	again.housekeep()
	again.stop()
	if state := stored(t, l.store); len(state.Statuses) != 1 || state.Statuses["a"].Status == nil {
		t.Errorf("the store has statuses %v; want that of pod a", state.Statuses)
	}
}
