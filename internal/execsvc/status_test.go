package execsvc

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	"github.com/podstream/podstream/client"
	"github.com/podstream/podstream/internal/execsvc/board"
)

// A pod that the node ends has failed once nothing of it runs, and not before: whoever waits for its resources goes by that.
func TestFailureShowsWhenNothingRuns(t *testing.T) {
	n := newNode(t)
	l := n.start()
	pod := newPod("a", "web", "file")
	pod.Spec.ActiveDeadlineSeconds = ptr.To[int64](1)
	stopping, release := make(chan struct{}, 1), make(chan struct{})
	n.setFault(func(ctx context.Context, method string) error {
		if method != "StopContainer" {
			return nil
		}
		select {
		case stopping <- struct{}{}:
		default:
		}
		select {
		case <-release:
			return nil
		case <-ctx.Done():
			return ctx.Err()
		}
	})
	l.deliver(ops(change(client.Add, true, pod)))
	<-stopping
	l.housekeep()
	if p, _ := l.shown("a"); p.State != terminating || p.Status.Phase != v1.PodRunning || p.Status.Reason != "" {
		t.Errorf("while it is being stopped the pod is shown %v as %s, reason %q", p.State, p.Status.Phase, p.Status.Reason)
	}
	close(release)
	l.await("a", "has failed", func(p board.Pod) bool {
		return p.State == finished && p.Status.Phase == v1.PodFailed && p.Status.Reason == "DeadlineExceeded"
	})
}

// A pod that somebody else has declared failed at the API server ends here, as with the kubelet.
func TestPodThatIsDeclaredFailedEnds(t *testing.T) {
	n := newNode(t)
	l := n.start()
	pod := newPod("a", "web", "api")
	l.deliver(ops(change(client.Add, true, pod)))
	l.awaitRunning("a")
	failed := pod.DeepCopy()
	failed.Status.Phase = v1.PodFailed
	l.deliver(ops(change(client.Reconcile, true, failed)))
	l.await("a", "has ended", func(p board.Pod) bool { return p.State == finished && p.Status.Phase == v1.PodFailed })
}

// Whoever makes statuses of one pod at the same time, the store ends up with the last one.
func TestStoreHasTheLastStatus(t *testing.T) {
	n := newNode(t)
	n.setFault(func(context.Context, string) error {
		return errors.New("the runtime is away, and nothing is cleaned up")
	})
	l := n.start()
	last := map[types.UID]string{}
	for i := range 2000 {
		pod := newPod(types.UID(fmt.Sprint(i)), fmt.Sprint(i), "file")
		var group sync.WaitGroup
		for j := range 24 {
			group.Go(func() {
				l.statuses.Update(pod, func(*v1.PodStatus) v1.PodStatus { return v1.PodStatus{Message: fmt.Sprint(j)} })
			})
		}
		group.Wait()
		kept, _ := l.statuses.Get(pod.UID)
		last[pod.UID] = kept.Status.Message
	}
	l.stop()
	state := stored(t, l.store)
	wrong := 0
	for uid, want := range last {
		if got := state.Statuses[uid].Status.Message; got != want {
			wrong++
		}
	}
	if wrong > 0 {
		t.Errorf("the store has an older status of %d pods", wrong)
	}
}
