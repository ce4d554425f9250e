package execsvc

import (
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/podstream/podstream/client"
	"github.com/podstream/podstream/internal/execsvc/decide/admit"
	"github.com/podstream/podstream/internal/execsvc/pod/podmeta"
	"github.com/podstream/podstream/internal/execsvc/pod/podtest"
	"github.com/podstream/podstream/internal/execsvc/pod/podview"
)

// static makes the pod one of a file, which is critical.
func static(pod *v1.Pod) *v1.Pod {
	pod.Annotations[podmeta.SourceAnnotation], pod.Generation = "file", 0
	return pod
}

// aged sets when the pod was created: that long after the others.
func aged(pod *v1.Pod, after time.Duration) *v1.Pod {
	pod.CreationTimestamp = metav1.NewTime(time.Unix(1_000_000_000, 0).Add(after))
	return pod
}

// A pod that had ended before it was added needs no capacity: no pod is preempted for it, and it isn't rejected.
func TestEndedPodNeedsNoCapacity(t *testing.T) {
	n := newNode(t)
	n.allocatable = podtest.Amounts("2", "1Gi")
	l := n.start()
	l.deliver(ops(change(client.Add, true, sized("b", 1, "2", "256Mi"))))
	id := l.awaitRunning("b")
	n.takeChanges()
	ended := sized("e", 1, "2", "256Mi")
	ended.Status.Phase, ended.Spec.Priority = v1.PodSucceeded, ptr.To[int32](podmeta.SystemCriticalPriority)
	l.deliver(ops(change(client.Add, true, ended)))
	l.await("e", "is shown as ended", func(p podview.Pod) bool { return p.State == finished && p.Status.Phase == v1.PodSucceeded })
	if now := l.awaitRunning("b"); now != id {
		t.Errorf("container %s runs in place of %s", now, id)
	}
	n.wantUnchanged()
}

// No pod is preempted for a critical pod that fits once the terminating pods have ended.
func TestCriticalPodWaitsForTerminatingPods(t *testing.T) {
	n := newNode(t)
	n.allocatable = podtest.Amounts("3", "1Gi")
	l := n.start()
	ending, staying := sized("e", 1, "1", "256Mi"), sized("a", 1, "2", "128Mi")
	l.deliver(ops(change(client.Add, true, ending, staying)))
	l.awaitRunning("e")
	id := l.awaitRunning("a")
	stopping, release := n.Hold(t, "StopContainer", 0)
	l.deliver(ops(change(client.Remove, true, ending)))
	stopping()
	l.deliver(ops(change(client.Add, true, static(sized("c", 0, "1", "256Mi")))))
	p := l.await("c", "waits", func(p podview.Pod) bool { return p.Err != nil })
	if want := "waiting for other pods to end: default/pod-e"; p.Err.Error() != want {
		t.Errorf("error %q, want %q", p.Err, want)
	}
	release()
	l.awaitRunning("c")
	if now := l.awaitRunning("a"); now != id {
		t.Errorf("container %s runs in place of %s", now, id)
	}
}

// A preempted static pod starts again once it fits: no controller would replace it.
func TestPreemptedStaticPodStartsAgain(t *testing.T) {
	n := newNode(t)
	n.allocatable = podtest.Amounts("3", "1Gi")
	l := n.start()
	low, high := static(sized("low", 0, "2", "256Mi")), static(sized("high", 0, "2", "256Mi"))
	low.Spec.Priority, high.Spec.Priority = ptr.To[int32](1), ptr.To[int32](2)
	l.deliver(ops(change(client.Add, true, low)))
	l.awaitRunning("low")
	l.deliver(ops(change(client.Add, true, high)))
	l.awaitRunning("high")
	l.await("low", "waits for capacity", func(p podview.Pod) bool {
		return p.State == syncing && p.Status != nil && p.Status.Reason == admit.UnexpectedAdmissionError
	})
	l.deliver(ops(change(client.Remove, true, high)))
	l.awaitRunning("low")
}
