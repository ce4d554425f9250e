package execsvc

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	"github.com/podstream/podstream/client"
	"github.com/podstream/podstream/internal/execsvc/pod/podview"
)

// A pod that the node ends becomes Failed once nothing of it runs, and not before: Failed means that its resources are
// free.
func TestFailureShowsWhenNothingRuns(t *testing.T) {
	n := newNode(t)
	l := n.start()
	pod := newPod("a", "web", "file")
	pod.Spec.ActiveDeadlineSeconds = ptr.To[int64](3600)
	stopping, release := n.Hold(t, "StopContainer", 0)
	l.deliver(ops(change(client.Add, true, pod)))
	l.awaitRunning("a")
	l.ahead.Store(int64(2 * time.Hour))
	l.Wake("a")
	stopping()
	l.housekeep()
	if p, _ := l.shown("a"); p.State != terminating || p.Status.Phase != v1.PodRunning || p.Status.Reason != "" {
		t.Errorf("while it is being stopped the pod is shown %v as %s, reason %q", p.State, p.Status.Phase, p.Status.Reason)
	}
	release()
	l.await("a", "has failed", func(p podview.Pod) bool {
		return p.State == finished && p.Status.Phase == v1.PodFailed && p.Status.Reason == "DeadlineExceeded"
	})
}

// A pod that another client has set Failed at the API server ends here, as with the kubelet.
func TestPodSetFailedEnds(t *testing.T) {
	n := newNode(t)
	l := n.start()
	pod := newPod("a", "web", "api")
	l.deliver(ops(change(client.Add, true, pod)))
	l.awaitRunning("a")
	failed := pod.DeepCopy()
	failed.Status.Phase = v1.PodFailed
	l.deliver(ops(change(client.Reconcile, true, failed)))
	l.await("a", "has ended", func(p podview.Pod) bool { return p.State == finished && p.Status.Phase == v1.PodFailed })
}

// If several goroutines compute statuses of one pod at once, the store has the last one.
func TestStoreHasTheLastStatus(t *testing.T) {
	n := newNode(t)
	n.SetFault(func(context.Context, string) error {
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

// The rest of the deadline is never longer than activeDeadlineSeconds, also if the clock was set back since the pod
// was started.
func TestDeadlineAfterClockSetBack(t *testing.T) {
	l := newNode(t).start()
	pod := newPod("a", "web", "file")
	pod.Spec.ActiveDeadlineSeconds = ptr.To[int64](60)
	started := metav1.NewTime(time.Now().Add(time.Hour))
	left, failure := l.deadline(pod, &v1.PodStatus{StartTime: &started})
	if left <= 0 || left > time.Minute || failure != nil {
		t.Errorf("%v are left, failure %v; want a minute at most", left, failure)
	}
}
