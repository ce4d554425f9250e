package execsvc

import (
	"context"
	"errors"
	"slices"
	"testing"

	"github.com/podstream/podstream/client"
	"github.com/podstream/podstream/internal/execsvc/board"
	"github.com/podstream/podstream/internal/execsvc/worker"
)

// While the runtime fails nothing is removed, not even what is unwanted; when it is back, what was asked for meanwhile is done.
func TestFailingRuntime(t *testing.T) {
	n := newNode(t)
	left := n.leave(newPod("old", "old", "file"))
	l := n.start()
	eventually(t, "the runtime is read", func() bool { return len(l.board.All()) == 1 })
	n.setFault(func(context.Context, string) error { return errors.New("the runtime is ill") })
	eventually(t, "the failure is seen", func() bool { return l.pleg.Health() != nil })
	l.deliver(ops(change(client.Add, true, newPod("a", "web", "file"))))
	l.deliver(synced(client.Source{Name: "file", Ready: true}))
	l.await("a", "has an error", func(p board.Pod) bool { return p.Err != nil })
	l.housekeep()
	l.wantUnclaimed("old")
	// To start the new one is tried; that harms nobody.
	if got := slices.DeleteFunc(n.takeChanges(), func(c string) bool { return c == "RunPodSandbox a" }); len(got) > 0 {
		t.Errorf("the runtime was told to %q", got)
	}
	n.setFault(nil)
	l.awaitRunning("a")
	l.awaitGone("old")
	if got := n.takeChanges(); !slices.Contains(got, "StopContainer "+left[0]+" 7") {
		t.Errorf("the leftover wasn't stopped with its grace period: %q", got)
	}
	n.wantLeft(1, 1)
}

// A pod that the network isn't ready for waits for it, without making sandboxes in vain; one on the node's own network doesn't.
func TestPodWaitsForTheNetwork(t *testing.T) {
	n := newNode(t)
	l := n.start()
	n.setNetwork(errors.New("NetworkPluginNotReady: cni plugin not initialized"))
	n.setFault(func(_ context.Context, method string) error {
		if method == "RunPodSandbox" {
			return errors.New("cni plugin not initialized")
		}
		return nil
	})
	l.deliver(ops(change(client.Add, true, newPod("a", "web", "file"))))
	l.await("a", "waits", func(p board.Pod) bool {
		return errors.Is(p.Err, worker.ErrNetworkNotReady) && p.WaitsFor == "the node's network"
	})
	n.setFault(nil)
	node := newPod("b", "node", "file")
	node.Spec.HostNetwork = true
	l.deliver(ops(change(client.Add, true, node)))
	l.awaitRunning("b")
	l.housekeep()
	if got := n.takeChanges(); !slices.Equal(got, []string{"RunPodSandbox a", "RunPodSandbox b", "CreateContainer", "StartContainer"}) {
		t.Errorf("the runtime was told to %q", got)
	}
	n.setNetwork(nil)
	l.awaitRunning("a")
}
