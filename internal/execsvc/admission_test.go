package execsvc

import (
	"context"
	"maps"
	"slices"
	"sync"
	"testing"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	"github.com/podstream/podstream/client"
	"github.com/podstream/podstream/internal/execsvc/admit"
	"github.com/podstream/podstream/internal/execsvc/board"
	"github.com/podstream/podstream/internal/execsvc/observed"
)

// Pods of an earlier life have their room before any other pod is looked at: what they were allocated, and not what they have come to ask
// for since.
func TestAdoptedPodsHaveTheirRoom(t *testing.T) {
	a := newAdmission(admissionConfig{}, nil)
	node := admit.Node{Allocatable: amounts("4", "1Gi")}
	had := sized("a", 1, "2", "256Mi").Spec.Containers[0].Resources
	a.adopt(sized("a", 2, "3", "256Mi"), &v1.PodStatus{
		ObservedGeneration: 1, ContainerStatuses: []v1.ContainerStatus{{Name: "main", Resources: &had, AllocatedResources: had.Requests}},
	})
	if _, v := a.check(sized("b", 1, "3", "256Mi"), node, &observed.Pod{}, nil); !v.MayPass() {
		t.Errorf("%+v; want no room beside the one that runs", v)
	}
	if _, v := a.check(sized("c", 1, "2", "256Mi"), node, &observed.Pod{}, nil); len(v.Refused) > 0 {
		t.Errorf("%+v; want it to be let in", v)
	}
	// Until its resize is decided on, its status is that of the spec before.
	if pod := a.allocated(sized("a", 2, "3", "256Mi")); pod.Generation != 1 || pod.Spec.Containers[0].Resources.Requests.Cpu().Value() != 2 {
		t.Errorf("generation %d with %v", pod.Generation, pod.Spec.Containers[0].Resources)
	}
	d, v := a.check(sized("a", 2, "3", "256Mi"), node, &observed.Pod{}, nil)
	if len(v.Refused) > 0 || d.Pending != v1.PodReasonDeferred {
		t.Errorf("%+v, %+v; want it deferred", d, v)
	}
	if pod := a.allocated(sized("a", 2, "3", "256Mi")); pod.Generation != 2 || pod.Spec.Containers[0].Resources.Requests.Cpu().Value() != 2 {
		t.Errorf("generation %d with %v", pod.Generation, pod.Spec.Containers[0].Resources)
	}
	if got := slices.Sorted(maps.Keys(a.waiting)); !slices.Equal(got, []types.UID{"a", "b"}) {
		t.Errorf("%v wait; want b and a", got)
	}
}

// A change into what can't run at all is none of the pod's resources either: these are decided on once it can.
func TestRefusedChangeAllocatesNothing(t *testing.T) {
	a := newAdmission(admissionConfig{}, nil)
	has := &observed.Pod{Sandboxes: []observed.Sandbox{{ID: "s", Ready: true}}}
	if _, v := a.check(sized("a", 1, "1", "256Mi"), admit.Node{}, has, nil); len(v.Refused) > 0 {
		t.Fatalf("%+v", v)
	}
	if _, v := a.check(withClaim(sized("a", 2, "2", "256Mi")), admit.Node{}, has, nil); len(v.Refused) == 0 {
		t.Fatal("it wasn't refused")
	}
	if d, v := a.check(sized("a", 3, "2", "256Mi"), admit.Node{}, has, nil); len(v.Refused) > 0 || !d.Begun {
		t.Errorf("%+v, %+v; want the resize to begin", d, v)
	}
}

// A pod that is changed, before it runs, into what can't run gives back its room.
func TestRefusedBeforeItRunsGivesBackItsRoom(t *testing.T) {
	a := newAdmission(admissionConfig{}, nil)
	node := admit.Node{Allocatable: amounts("2", "1Gi")}
	if _, v := a.check(sized("a", 1, "2", "256Mi"), node, &observed.Pod{}, nil); len(v.Refused) > 0 {
		t.Fatalf("%+v", v)
	}
	if _, v := a.check(withClaim(sized("a", 2, "2", "256Mi")), node, &observed.Pod{}, nil); len(v.Refused) == 0 {
		t.Fatal("it wasn't refused")
	}
	if _, v := a.check(sized("b", 1, "2", "256Mi"), node, &observed.Pod{}, nil); len(v.Refused) > 0 {
		t.Errorf("%+v; want it to be let in", v)
	}
}

// static is the pod as one of a file, by that critical.
func static(pod *v1.Pod) *v1.Pod {
	pod.Annotations[sourceAnnotation], pod.Generation = "file", 0
	return pod
}

// A pod that ended before this agent knew it needs no room: nobody ends for it, and it isn't refused for want of it.
func TestEndedPodNeedsNoRoom(t *testing.T) {
	n := newNode(t)
	n.allocatable = amounts("2", "1Gi")
	l := n.start()
	l.deliver(ops(change(client.Add, true, sized("b", 1, "2", "256Mi"))))
	id := l.awaitRunning("b")
	n.takeChanges()
	ended := sized("e", 1, "2", "256Mi")
	ended.Status.Phase, ended.Spec.Priority = v1.PodSucceeded, ptr.To[int32](admit.SystemCriticalPriority)
	l.deliver(ops(change(client.Add, true, ended)))
	l.await("e", "is known to have ended", func(p board.Pod) bool { return p.State == finished && p.Status.Phase == v1.PodSucceeded })
	if now := l.awaitRunning("b"); now != id {
		t.Errorf("container %s runs in place of %s", now, id)
	}
	n.wantUnchanged()
}

// Nobody is ended for a critical pod that finds its room when those have ended that are ending already.
func TestPreemptionWaitsForWhatEnds(t *testing.T) {
	n := newNode(t)
	n.allocatable = amounts("3", "1Gi")
	l := n.start()
	ending, staying := sized("e", 1, "1", "256Mi"), sized("a", 1, "2", "128Mi")
	l.deliver(ops(change(client.Add, true, ending, staying)))
	l.awaitRunning("e")
	id := l.awaitRunning("a")
	stopping, release := make(chan struct{}), make(chan struct{})
	began := sync.OnceFunc(func() { close(stopping) })
	n.setFault(func(ctx context.Context, method string) error {
		if method != "StopContainer" {
			return nil
		}
		began()
		select {
		case <-release:
			return nil
		case <-ctx.Done():
			return ctx.Err()
		}
	})
	l.deliver(ops(change(client.Remove, true, ending)))
	<-stopping
	l.deliver(ops(change(client.Add, true, static(sized("c", 0, "1", "256Mi")))))
	p := l.await("c", "waits", func(p board.Pod) bool { return p.Err != nil })
	if want := "waiting for the end of pods that make room: default/pod-e"; p.Err.Error() != want {
		t.Errorf("error %q, want %q", p.Err, want)
	}
	close(release)
	l.awaitRunning("c")
	if now := l.awaitRunning("a"); now != id {
		t.Errorf("container %s runs in place of %s", now, id)
	}
}

// A static pod that had to make room begins anew once there is room again: nobody else would make another one of it.
func TestPreemptedStaticPodBeginsAnew(t *testing.T) {
	n := newNode(t)
	n.allocatable = amounts("3", "1Gi")
	l := n.start()
	low, high := static(sized("low", 0, "2", "256Mi")), static(sized("high", 0, "2", "256Mi"))
	low.Spec.Priority, high.Spec.Priority = ptr.To[int32](1), ptr.To[int32](2)
	l.deliver(ops(change(client.Add, true, low)))
	l.awaitRunning("low")
	l.deliver(ops(change(client.Add, true, high)))
	l.awaitRunning("high")
	l.await("low", "waits for room", func(p board.Pod) bool {
		return p.State == syncing && p.Status != nil && p.Status.Reason == admit.UnexpectedAdmissionError
	})
	l.deliver(ops(change(client.Remove, true, high)))
	l.awaitRunning("low")
}
