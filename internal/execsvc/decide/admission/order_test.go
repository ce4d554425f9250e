package admission

import (
	"maps"
	"slices"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podstream/podstream/internal/execsvc/decide/resize"
)

// Pods are admitted in their order, and not in the order of the calls: those that arrive together, and those that wait
// for capacity.
func TestAdmissionOrder(t *testing.T) {
	q := newQueue(t, "2", nil)
	young, old := aged(sized("a", 1, "2", "1Mi"), time.Hour), aged(sized("b", 1, "2", "1Mi"), 0)
	critical := static(sized("c", 0, "2", "1Mi"))
	for _, pod := range []*v1.Pod{young, old, critical} {
		q.Expect(pod, nil)
	}
	q.wantOut(young)
	q.wantIn(critical)
	q.wantOut(old)
	q.ends("c")
	if !q.woken["a"] || !q.woken["b"] {
		t.Errorf("%v were woken; want both that wait", q.woken)
	}
	q.wantOut(young)
	q.wantIn(old)
	q.ends("b")
	q.wantIn(young)
	if len(q.waiting) > 0 {
		t.Errorf("%v wait", slices.Collect(maps.Keys(q.waiting)))
	}
	// A waiting pod that is being ended gets nothing.
	q.ends("a")
	q.snapshot.Terminating["b"] = true
	q.Expect(old, nil)
	q.wantIn(young)
}

// Free capacity is for resizes first, in the order of their priorities. A pod whose resize was decided in the Check of
// another pod gets the decision at its own next Check.
func TestResizesComeFirst(t *testing.T) {
	q := newQueue(t, "6", nil)
	more := func(uid types.UID, priority int32) *v1.Pod {
		pod := sized(uid, 2, "3", "1Mi")
		pod.Spec.Priority = &priority
		return pod
	}
	for _, uid := range named("a", "b") {
		q.wantIn(sized(uid, 1, "1", "1Mi"))
	}
	q.wantIn(sized("x", 1, "4", "1Mi"))
	waiting := sized("o", 1, "2", "1Mi")
	q.wantOut(waiting)
	for _, pod := range []*v1.Pod{more("a", 1), more("b", 2)} {
		if got := q.wantIn(pod); got.Pending != v1.PodReasonDeferred {
			t.Fatalf("%+v; want it deferred", got)
		}
	}
	// It shrinks, which makes capacity free for one of them.
	clear(q.woken)
	if got := q.wantIn(sized("x", 2, "2", "1Mi")); !got.Begun || !q.woken["a"] || !q.woken["b"] || !q.woken["o"] {
		t.Errorf("%+v, woken %v; want it begun, and the others woken", got, q.woken)
	}
	q.wantOut(waiting)
	if got := q.wantIn(more("a", 1)); got.Begun || got.Pending != v1.PodReasonDeferred {
		t.Errorf("%+v; want it to wait for the one with the higher priority", got)
	}
	if kept := q.stored["b"]; !kept.Resizing || kept.Generation != 2 {
		t.Errorf("%+v is stored; want the resize, which is not done yet", kept)
	}
	if shown := q.Allocated(more("b", 2)); !resize.Same(shown, sized("b", 1, "1", "1Mi")) {
		t.Errorf("its status has %v before its own Check", shown.Spec.Containers[0].Resources)
	}
	got, v := q.ask(more("b", 2))
	if !got.Begun || !v.Resizing {
		t.Errorf("%+v, %+v; want it begun", got, v)
	}
	q.Resized("b")
	if got, v := q.ask(more("b", 2)); got.Begun || v.Resizing || q.stored["b"].Resizing {
		t.Errorf("%+v, %+v, stored %+v; want it done", got, v, q.stored["b"])
	}
}

// Restored allocations are admitted before other pods, and stay as they are until a resize is decided.
func TestRestoredAllocations(t *testing.T) {
	allocated := func(pod *v1.Pod) resize.Allocation { return resize.AllocationOf(pod) }
	q := newQueue(t, "4", map[types.UID]resize.Allocation{
		"a": allocated(sized("a", 1, "2", "1Mi")), "b": allocated(sized("b", 1, "1", "1Mi")), "gone": allocated(sized("gone", 1, "1", "1Mi")),
	})
	deferred, beyond := sized("a", 2, "4", "1Mi"), sized("b", 2, "9", "1Mi")
	q.Expect(deferred, nil)
	q.Expect(beyond, nil)
	q.wantOut(sized("new", 1, "2", "1Mi"))
	for _, want := range []struct {
		pod     *v1.Pod
		pending string
		cpu     string
	}{{deferred, v1.PodReasonDeferred, "2"}, {beyond, v1.PodReasonDeferred, "1"}} {
		if got := q.wantIn(want.pod); got.Pending != want.pending || !resize.Same(got.Pod, sized("", 1, want.cpu, "1Mi")) {
			t.Errorf("pod %s is %q with %v; want %+v", want.pod.UID, got.Pending, got.Pod.Spec.Containers[0].Resources, want)
		}
	}
	q.ends("gone")
	if slices.Contains(slices.Collect(maps.Keys(q.stored)), "gone") || len(q.restored) > 0 {
		t.Errorf("%v are stored, and %v restored; want nothing of the pod that is gone", q.stored, q.restored)
	}
	q.ends("b")
	if _, ok := q.stored["b"]; ok {
		t.Error("the allocation of a released pod is stored")
	}
}

// Nothing is allocated to a waiting pod that is being ended.
func TestTerminatingPodGetsNothing(t *testing.T) {
	q := newQueue(t, "4", nil)
	q.wantIn(sized("x", 1, "2", "1Mi"))
	q.wantIn(sized("r", 1, "1", "1Mi"))
	resized, critical := sized("r", 2, "3", "1Mi"), static(sized("c", 0, "4", "1Mi"))
	if got := q.wantIn(resized); got.Pending != v1.PodReasonDeferred {
		t.Fatalf("%+v; want it deferred", got)
	}
	q.Expect(critical, nil)
	q.snapshot.Terminating["r"], q.snapshot.Terminating["c"] = true, true
	q.ends("x")
	q.wantIn(sized("new", 1, "3", "1Mi"))
	if got := q.Allocated(resized); !resize.Same(got, sized("r", 1, "1", "1Mi")) || len(q.reserved) > 0 {
		t.Errorf("the terminating pod is allocated %v, and %v are reserved", got.Spec.Containers[0].Resources, q.reserved)
	}
}
