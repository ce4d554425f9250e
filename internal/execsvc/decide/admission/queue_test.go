package admission

import (
	"maps"
	"slices"
	"testing"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podstream/podstream/internal/execsvc/decide/admit"
	"github.com/podstream/podstream/internal/execsvc/pod/podtest"
)

// An adopted pod has the allocation from before the restart, and not the requests that its spec has now.
func TestAdoptedPodKeepsItsAllocation(t *testing.T) {
	q := New(Config{})
	node := Snapshot{Node: admit.Node{Allocatable: podtest.Amounts("4", "1Gi")}}
	had := sized("a", 1, "2", "256Mi").Spec.Containers[0].Resources
	q.Adopt(sized("a", 2, "3", "256Mi"), &v1.PodStatus{
		ObservedGeneration: 1, ContainerStatuses: []v1.ContainerStatus{{Name: "main", Resources: &had, AllocatedResources: had.Requests}},
	})
	if _, v := q.Check(sized("b", 1, "3", "256Mi"), node, false, nil); !v.Transient() {
		t.Errorf("%+v; want no capacity beside the adopted pod", v)
	}
	if _, v := q.Check(sized("c", 1, "2", "256Mi"), node, false, nil); len(v.Rejected) > 0 {
		t.Errorf("%+v; want it admitted", v)
	}
	// Until its resize is decided, its status is that of the old spec.
	if pod := q.Allocated(sized("a", 2, "3", "256Mi")); pod.Generation != 1 || pod.Spec.Containers[0].Resources.Requests.Cpu().Value() != 2 {
		t.Errorf("generation %d with %v", pod.Generation, pod.Spec.Containers[0].Resources)
	}
	deleted := sized("a", 3, "3", "256Mi")
	deleted.DeletionTimestamp = &metav1.Time{}
	if pod := q.Allocated(deleted); pod.Generation != 3 || pod.Spec.Containers[0].Resources.Requests.Cpu().Value() != 2 {
		t.Errorf("while it is being deleted: generation %d with %v", pod.Generation, pod.Spec.Containers[0].Resources)
	}
	d, v := q.Check(sized("a", 2, "3", "256Mi"), node, false, nil)
	if len(v.Rejected) > 0 || d.Pending != v1.PodReasonDeferred {
		t.Errorf("%+v, %+v; want it deferred", d, v)
	}
	if pod := q.Allocated(sized("a", 2, "3", "256Mi")); pod.Generation != 2 || pod.Spec.Containers[0].Resources.Requests.Cpu().Value() != 2 {
		t.Errorf("generation %d with %v", pod.Generation, pod.Spec.Containers[0].Resources)
	}
	if got := slices.Sorted(maps.Keys(q.waiting)); !slices.Equal(got, []types.UID{"a", "b"}) {
		t.Errorf("%v wait; want b and a", got)
	}
}

// If a running pod is changed into one that can't run, its resources don't change either. They are decided once the
// pod can run.
func TestImpossibleChangeAllocatesNothing(t *testing.T) {
	q := New(Config{})
	if _, v := q.Check(sized("a", 1, "1", "256Mi"), Snapshot{}, true, nil); len(v.Rejected) > 0 {
		t.Fatalf("%+v", v)
	}
	if d, v := q.Check(withCephFS(sized("a", 2, "2", "256Mi")), Snapshot{}, true, nil); len(v.Held) == 0 || d.Begun || d.Pod.Generation != 1 {
		t.Fatalf("%+v, %+v; want it to go on as it was", d, v)
	}
	if d, v := q.Check(sized("a", 3, "2", "256Mi"), Snapshot{}, true, nil); len(v.Rejected) > 0 || !d.Begun {
		t.Errorf("%+v, %+v; want the resize to begin", d, v)
	}
}

// A pod that is changed, before it runs, into one that has lacks keeps its capacity.
func TestPodChangedBeforeItRunsKeepsItsCapacity(t *testing.T) {
	q := New(Config{})
	node := Snapshot{Node: admit.Node{Allocatable: podtest.Amounts("2", "1Gi")}}
	if _, v := q.Check(sized("a", 1, "2", "256Mi"), node, false, nil); len(v.Rejected) > 0 {
		t.Fatalf("%+v", v)
	}
	if _, v := q.Check(withCephFS(sized("a", 2, "2", "256Mi")), node, false, nil); len(v.Rejected) > 0 || len(v.Waiting(false)) == 0 {
		t.Fatalf("%+v; want it admitted, and waiting", v)
	}
	if _, v := q.Check(sized("b", 1, "2", "256Mi"), node, false, nil); !v.Transient() {
		t.Errorf("%+v; want no capacity beside the waiting pod", v)
	}
}

// Take returns each change once: the allocations to store, and the waiting pods to wake after a release.
func TestTake(t *testing.T) {
	q := newQueue(t, "2", nil)
	for _, uid := range named("a", "b") {
		q.Check(sized(uid, 1, "2", "1Mi"), q.snapshot, false, nil)
	}
	if got := q.Take(); len(got.Wake) > 0 || len(got.Allocations) != 1 || got.Allocations["a"] == nil {
		t.Errorf("after the checks: %+v; want the allocation of a", got)
	}
	q.Release("a")
	got := q.Take()
	if a, ok := got.Allocations["a"]; !ok || a != nil || !got.Wake["b"] || len(got.Wake) != 1 {
		t.Errorf("after the release: %+v; want no allocation of a, and b woken", got)
	}
	if got := q.Take(); len(got.Wake)+len(got.Allocations) > 0 {
		t.Errorf("again: %+v; want no changes", got)
	}
}
