package resize

import (
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
)

// Resizes that grow nothing come first, then priority, class and waiting time count, in this order.
func TestCompare(t *testing.T) {
	start := time.Unix(1_000_000_000, 0)
	waiting := func(uid types.UID, priority int32, burstable bool, cpu string, since time.Duration) Waiting {
		had, asked := podOf(uid, 1, amounts("2", "1Gi")), podOf(uid, 2, amounts(cpu, "1Gi"))
		asked.Spec.Priority = &priority
		if burstable {
			asked.Spec.Containers[0].Resources.Limits = nil
		}
		return Waiting{Pod: asked, Allocated: had, Since: start.Add(since)}
	}
	unranked := waiting("unranked", 0, false, "3", 0)
	unranked.Pod.Spec.Priority = nil
	want := []Waiting{
		waiting("shrinks", -1, true, "1", time.Hour),
		waiting("same", -2, true, "2", 0),
		waiting("important", 10, true, "4", time.Hour),
		waiting("first", 5, false, "3", 0), waiting("second", 5, false, "3", time.Minute),
		waiting("burstable", 5, true, "3", 0),
		unranked,
		waiting("twin-1", -1, true, "3", 0), waiting("twin-2", -1, true, "3", 0),
	}
	got := slices.Clone(want)
	slices.Reverse(got)
	slices.SortFunc(got, Compare)
	names := func(list []Waiting) (out []types.UID) {
		for _, w := range list {
			out = append(out, w.Pod.UID)
		}
		return out
	}
	if diff := cmp.Diff(names(want), names(got)); diff != "" {
		t.Errorf("order (-want +got):\n%s", diff)
	}
}

// A stored allocation restores the pod's resources, whatever its spec has since.
func TestAllocation(t *testing.T) {
	whole := amounts("4", "2Gi")
	was := podOf("p", 3, amounts("1", "512Mi"))
	was.Spec.Resources = &whole
	was.Spec.InitContainers = []v1.Container{{Name: "i", Resources: amounts("2", "-")}}
	now := was.DeepCopy()
	now.Generation, now.Spec.Resources = 4, nil
	now.Spec.Containers[0].Resources, now.Spec.InitContainers[0].Resources = amounts("9", "9Gi"), amounts("9", "-")
	got := AllocationOf(was).Of(now)
	if !Same(got, was) || got.Generation != 3 || now.Spec.Resources != nil {
		t.Errorf("generation %d with %+v", got.Generation, got.Spec)
	}
	if had := AllocationOf(now).Of(was); had.Spec.Resources != nil {
		t.Errorf("it has %v as a whole, and had nothing", had.Spec.Resources)
	}
}

// A pod that asks for no more than it has gets that on the fullest node, and limits need no free resources.
func TestDecideOnFullNode(t *testing.T) {
	in := Input{Allocated: podOf("p", 1, amounts("2", "1Gi")), Others: []*v1.Pod{podOf("o", 1, amounts("9", "-"))}}
	in.Node.Allocatable = amounts("1", "1Mi").Requests
	lower := podOf("p", 2, amounts("2", "1Gi"))
	lower.Spec.Containers[0].Resources.Limits = amounts("3", "2Gi").Limits
	for _, pod := range []*v1.Pod{podOf("p", 2, amounts("1", "1Gi")), lower} {
		in.Pod = pod
		if got := Decide(in); !got.Begun || got.Pending != "" {
			t.Errorf("%+v; want it begun", got)
		}
	}
	in.Pod = podOf("p", 2, amounts("1", "2Gi"))
	if got := Decide(in); got.Begun {
		t.Errorf("%+v; want more memory refused, though it is for less cpu", got)
	}
}
