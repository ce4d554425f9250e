package execsvc

import (
	"context"
	"errors"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podstream/podstream/client"
	"github.com/podstream/podstream/internal/execsvc/decide/actions"
	"github.com/podstream/podstream/internal/execsvc/loop/restarts"
	"github.com/podstream/podstream/internal/execsvc/pod/podview"
	"github.com/podstream/podstream/internal/simruntime/simnode"
)

// twoContainers is a pod with the containers "main" and "other", which end with 0 after a SIGTERM.
func twoContainers(policy v1.RestartPolicy) *v1.Pod {
	pod := newPod("a", "web", "file", "on-term", "/told", "x", "0s", "0")
	pod.Spec.Containers = append(pod.Spec.Containers, simnode.Container("other", "on-term", "/told", "x", "0s", "0"))
	pod.Spec.RestartPolicy = policy
	return pod
}

// restarted reports whether these containers run for that number of restarts; "main" and "other" are the pod's.
func restarted(main, other int32) func(p podview.Pod) bool {
	return func(p podview.Pod) bool {
		if p.Status == nil || len(p.Status.ContainerStatuses) != 2 || p.State != syncing {
			return false
		}
		m, o := &p.Status.ContainerStatuses[0], &p.Status.ContainerStatuses[1]
		return m.State.Running != nil && o.State.Running != nil && m.RestartCount == main && o.RestartCount == other
	}
}

// request requests a restart that must be accepted, and returns the IDs that are replaced.
func (l *testAgent) request(container string) (ids []string, joined bool) {
	l.n.t.Helper()
	accepted, err := l.RestartPod(l.n.t.Context(), "a", container)
	if err != nil {
		l.n.t.Fatal(err)
	}
	for _, c := range accepted.Containers {
		ids = append(ids, strings.TrimPrefix(c.ID, "containerd://"))
	}
	return ids, accepted.Joined
}

// awaitNoRequest waits until the agent has no request, and checks that its store has none either, once it is stopped.
func (l *testAgent) awaitNoRequest() {
	l.n.t.Helper()
	eventually(l.n.t, "the request is complete", func() bool { return l.restarts.Of("a") == nil })
	l.stop()
	if r := stored(l.n.t, l.store).Statuses["a"].Restart; r != nil {
		l.n.t.Errorf("the store has the request %v", r.Containers)
	}
}

// stops are the IDs in the calls of StopContainer.
func stops(changes []string) []string {
	var ids []string
	for _, c := range changes {
		if words := strings.Fields(c); words[0] == "StopContainer" {
			ids = append(ids, words[1])
		}
	}
	return ids
}

// An operator's restart counts as one, whatever the restart policy, and touches no other container. While the container
// is stopped, the pod isn't finished.
func TestRequestedRestart(t *testing.T) {
	for _, policy := range []v1.RestartPolicy{v1.RestartPolicyAlways, v1.RestartPolicyOnFailure, v1.RestartPolicyNever} {
		t.Run(string(policy), func(t *testing.T) {
			n := newNode(t)
			l := n.start()
			l.deliver(at(1, ops(change(client.Add, true, twoContainers(policy)))))
			l.await("a", "runs", restarted(0, 0))
			n.takeChanges()
			ids, joined := l.request("main")
			if joined || len(ids) != 1 {
				t.Errorf("%q are restarted, joined %t; want one container, and no joined request", ids, joined)
			}
			p := l.await("a", "runs again", restarted(1, 0))
			if last := p.Status.ContainerStatuses[0].LastTerminationState.Terminated; last == nil || last.ContainerID != "containerd://"+ids[0] {
				t.Errorf("the last state is %+v; want the end of %s", last, ids[0])
			}
			if got := stops(n.takeChanges()); !slices.Equal(got, ids) {
				t.Errorf("%q were stopped; want %q", got, ids)
			}
			// The whole pod.
			l.request("")
			l.await("a", "runs again as a whole", restarted(2, 1))
			l.awaitNoRequest()
		})
	}
}

// If podexecd ends between the stored request and the stop, or between the stop and the start, its successor completes
// the request, and stops each container once. Meanwhile the pod isn't finished, although its policy starts no container
// again.
func TestRequestedRestartGoesOn(t *testing.T) {
	for method, wantStops := range map[string]int{"StopContainer": 2, "CreateContainer": 0} {
		t.Run(method, func(t *testing.T) {
			n := newNode(t)
			l := n.start()
			l.deliver(at(1, ops(change(client.Add, true, twoContainers(v1.RestartPolicyNever)))))
			l.await("a", "runs", restarted(0, 0))
			n.takeChanges()
			reached := make(chan struct{}, 1)
			n.SetFault(func(_ context.Context, called string) error {
				if called != method {
					return nil
				}
				select {
				case reached <- struct{}{}:
				default:
				}
				return errors.New("podexecd is killed before the call")
			})
			ids, _ := l.request("")
			<-reached
			if again, joined := l.request("main"); !joined || !slices.Contains(ids, again[0]) {
				t.Errorf("a second request restarts %q, joined %t; want it to join the first", again, joined)
			}
			l.stop()
			if got := stored(t, l.store).Statuses["a"]; got.Restart == nil || len(got.Restart.Containers) != 2 || got.Status.Phase != v1.PodRunning {
				t.Fatalf("the store has %+v; want the request, and the pod running", got)
			}
			n.takeChanges()
			n.SetFault(nil)
			again := n.startFrom(l.store)
			again.await("a", "runs again", restarted(1, 1))
			got := stops(n.takeChanges())
			slices.Sort(got)
			slices.Sort(ids)
			if len(got) != wantStops || wantStops > 0 && !slices.Equal(got, ids) {
				t.Errorf("%q were stopped; want %d of %q", got, wantStops, ids)
			}
			again.housekeep()
			again.awaitNoRequest()
			n.takeChanges()
			third := n.startFrom(l.store)
			third.await("a", "is the same", restarted(1, 1))
			third.housekeep()
			n.wantUnchanged()
		})
	}
}

// A request whose completion wasn't stored stops nothing after a restart of podexecd.
func TestStaleRequestStopsNothing(t *testing.T) {
	n := newNode(t)
	l := n.start()
	l.deliver(at(1, ops(change(client.Add, true, twoContainers(v1.RestartPolicyAlways)))))
	l.await("a", "runs", restarted(0, 0))
	ids, _ := l.request("main")
	l.await("a", "runs again", restarted(1, 0))
	eventually(t, "the request is complete", func() bool { return l.restarts.Of("a") == nil })
	if _, _, err := restarts.New(restarts.Config{Store: l.cfg.Store}).Add(t.Context(), "a", func(actions.Requested) (actions.Requested, error) {
		return actions.Requested{"main": ids[0]}, nil
	}); err != nil {
		t.Fatal(err)
	}
	l.stop()
	n.takeChanges()
	again := n.startFrom(l.store)
	again.await("a", "runs", restarted(1, 0))
	again.housekeep()
	n.wantUnchanged()
	again.awaitNoRequest()
}

// What can't be restarted is refused with the reason.
func TestRestartIsRefused(t *testing.T) {
	refused := func(t *testing.T, l *testAgent, uid types.UID, container string, want error, text string) {
		t.Helper()
		accepted, err := l.RestartPod(t.Context(), uid, container)
		if !errors.Is(err, want) || !strings.Contains(err.Error(), text) {
			t.Errorf("pod %s, container %q: %+v, error %v; want %q", uid, container, accepted, err, text)
		}
	}
	n := newNode(t)
	l := n.start()
	done := newPod("done", "job", "file", "exit", "0")
	done.Spec.RestartPolicy = v1.RestartPolicyNever
	slow, web := newPod("slow", "slow", "file", "ignore-term"), newPod("a", "web", "file")
	pending := withCephFS(newPod("pending", "pending", "file"))
	l.deliver(at(1, ops(change(client.Add, true, done, slow, web, pending))))
	l.awaitRunning("a")
	l.awaitRunning("slow")
	l.await("done", "has finished", func(p podview.Pod) bool { return p.State == finished })
	l.await("pending", "waits", func(p podview.Pod) bool { return p.Status != nil && p.Status.Phase == v1.PodPending })
	l.deliver(at(2, ops(change(client.Remove, true, slow))))
	l.await("slow", "is being ended", func(p podview.Pod) bool { return p.State == terminating })

	refused(t, l, "a", "nope", actions.ErrUnknownContainer, "the pod has no such container: nope; it has main")
	refused(t, l, "done", "", restarts.ErrRefused, "the pod has finished: it is Succeeded")
	refused(t, l, "slow", "", restarts.ErrRefused, "isn't desired any more, and is being ended")
	refused(t, l, "pending", "", actions.ErrNotRestartable, "no container of the pod has started yet")
	l.stop()

	// A podexecd that has lost its store, and whose podconfigd hasn't answered.
	other := n.start()
	eventually(t, "the pod is found", func() bool { _, there := other.shown("a"); return there })
	refused(t, other, "a", "", restarts.ErrRefused, "no source has confirmed the pod")
	other.stop()

	// A store that can't be written.
	path := filepath.Join(t.TempDir(), "missing", "podexecd.db")
	unstored := n.startFrom(path)
	unstored.deliver(at(1, ops(change(client.Add, true, web))))
	unstored.awaitRunning("a")
	n.takeChanges()
	refused(t, unstored, "a", "", restarts.ErrNotStored, "no such file or directory")
	unstored.housekeep()
	n.wantUnchanged()
}

// The request of a pod that ends is dropped: a pod that is added again with its UID isn't restarted.
func TestRequestEndsWithThePod(t *testing.T) {
	n := newNode(t)
	l := n.start()
	pod := twoContainers(v1.RestartPolicyAlways)
	l.deliver(at(1, ops(change(client.Add, true, pod))))
	l.await("a", "runs", restarted(0, 0))
	_, release := n.Hold(t, "CreateContainer", 0)
	l.request("")
	l.deliver(at(2, ops(change(client.Remove, true, pod))))
	release()
	l.awaitGone("a")
	l.deliver(at(3, ops(change(client.Add, true, pod))))
	l.await("a", "runs", restarted(0, 0))
	l.awaitNoRequest()
}
