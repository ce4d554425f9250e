package execsvc

import (
	"context"
	"errors"
	"slices"
	"testing"

	"github.com/podstream/podstream/client"
	"github.com/podstream/podstream/internal/execsvc/loop/worker"
	"github.com/podstream/podstream/internal/execsvc/pod/podview"
)

// While the runtime fails no pod is removed, not even an orphaned one. Once it works again, the changes since then are
// carried out.
func TestFailingRuntime(t *testing.T) {
	n := newNode(t)
	left := n.leave(newPod("old", "old", "file"))
	l := n.start()
	eventually(t, "the runtime is read", func() bool { return len(l.board.All()) == 1 })
	n.SetFault(func(context.Context, string) error { return errors.New("the runtime is ill") })
	eventually(t, "the failure is known", func() bool { return l.pleg.Health() != nil })
	l.deliver(ops(change(client.Add, true, newPod("a", "web", "file"))))
	l.deliver(synced(client.Source{Name: "file", Ready: true}))
	l.await("a", "has an error", func(p podview.Pod) bool { return p.Err != nil })
	l.housekeep()
	l.wantUnclaimed("old")
	// The start of the new pod is attempted; that has no effect.
	if got := slices.DeleteFunc(n.takeChanges(), func(c string) bool { return c == "RunPodSandbox a" }); len(got) > 0 {
		t.Errorf("the calls were %q", got)
	}
	n.SetFault(nil)
	l.awaitRunning("a")
	l.awaitGone("old")
	if got := n.takeChanges(); !slices.Contains(got, "StopContainer "+left[0]+" 7") {
		t.Errorf("the orphaned pod wasn't stopped with its grace period: %q", got)
	}
	n.wantLeft(1, 1)
}

// While the network isn't ready, a pod waits and no sandbox is created; a pod with hostNetwork starts.
func TestPodWaitsForNetwork(t *testing.T) {
	n := newNode(t)
	l := n.start()
	n.setNetwork(errors.New("NetworkPluginNotReady: cni plugin not initialized"))
	n.SetFault(func(_ context.Context, method string) error {
		if method == "RunPodSandbox" {
			return errors.New("cni plugin not initialized")
		}
		return nil
	})
	l.deliver(ops(change(client.Add, true, newPod("a", "web", "file"))))
	l.await("a", "waits", func(p podview.Pod) bool {
		return errors.Is(p.Err, worker.ErrNetworkNotReady) && p.WaitsFor == "the node's network"
	})
	n.SetFault(nil)
	node := newPod("b", "node", "file")
	node.Spec.HostNetwork = true
	l.deliver(ops(change(client.Add, true, node)))
	l.awaitRunning("b")
	l.housekeep()
	if got := n.takeChanges(); !slices.Equal(got, []string{"RunPodSandbox a", "RunPodSandbox b", "CreateContainer", "StartContainer"}) {
		t.Errorf("the calls were %q", got)
	}
	n.setNetwork(nil)
	l.awaitRunning("a")
}
