package eviction

import (
	"maps"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	v1 "k8s.io/api/core/v1"
)

var t0 = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

// free returns an observation of this many available mebibytes of 1000.
func free(mib int64) observation { return inBytes(mib<<20, 1000<<20) }

// A series of observations, ten seconds apart, with the expected conditions and thresholds.
func TestState(t *testing.T) {
	type look struct {
		memory, disk int64
		conditions   string
		act          string
	}
	const m, d = "MemoryPressure ", "DiskPressure "
	for name, c := range map[string]struct {
		s     Settings
		looks []look
	}{
		"hard": {
			Settings{Hard: map[string]string{"memory.available": "100Mi"}},
			[]look{{100, 0, "", ""}, {99, 0, m, "memory.available "}, {99, 0, m, "memory.available "}, {100, 0, m, ""}, {100, 0, m, ""}, {100, 0, "", ""}},
		},
		"soft": {
			Settings{Hard: map[string]string{}, Soft: map[string]string{"memory.available": "100Mi"}, SoftGracePeriod: map[string]string{"memory.available": "20s"}},
			[]look{
				{99, 0, m, ""},
				{99, 0, m, ""},
				{99, 0, m, "memory.available "},
				{100, 0, m, ""},
				{99, 0, m, ""},
				{99, 0, m, ""},
				{99, 0, m, "memory.available "},
			},
		},
		"minimum reclaim": {
			Settings{Hard: map[string]string{"memory.available": "100Mi"}, MinimumReclaim: map[string]string{"memory.available": "50Mi"}},
			[]look{{120, 0, "", ""}, {99, 0, m, "memory.available "}, {149, 0, m, "memory.available "}, {150, 0, m, ""}, {120, 0, m, ""}, {120, 0, "", ""}},
		},
		"memory first": {
			Settings{Hard: map[string]string{"memory.available": "10%", "nodefs.available": "10%"}},
			[]look{{99, 99, d + m, "memory.available nodefs.available "}, {100, 99, d + m, "nodefs.available "}, {100, 100, d + m, ""}, {100, 100, d, ""}},
		},
	} {
		all, err := Parse(c.s)
		if err != nil {
			t.Fatal(err)
		}
		var s state
		for i, l := range c.looks {
			var has map[v1.NodeConditionType]bool
			var act []int
			seen := observations{MemoryAvailable: free(l.memory), NodeFsAvailable: free(l.disk)}
			s, has, act = s.next(all, seen, 25*time.Second, t0.Add(time.Duration(i)*10*time.Second))
			got := look{memory: l.memory, disk: l.disk}
			for _, condition := range slices.Sorted(maps.Keys(has)) {
				got.conditions += string(condition) + " "
			}
			for _, i := range act {
				got.act += string(all[i].signal) + " "
			}
			if diff := cmp.Diff(l, got, cmp.AllowUnexported(look{})); diff != "" {
				t.Errorf("%s, look %d (-want +got):\n%s", name, i, diff)
			}
		}
	}
}

// A signal that can't be read meets no threshold, and ends no condition.
func TestStateWithoutObservation(t *testing.T) {
	all, _ := Parse(Settings{Hard: map[string]string{"memory.available": "100Mi"}})
	s, has, act := state{}.next(all, observations{}, time.Minute, t0)
	if len(has)+len(act) > 0 {
		t.Errorf("unobserved from the start: %v, %v", has, act)
	}
	s, _, _ = s.next(all, observations{MemoryAvailable: free(1)}, time.Minute, t0)
	if _, has, act = s.next(all, observations{}, time.Minute, t0.Add(59*time.Second)); !has[v1.NodeMemoryPressure] || len(act) > 0 {
		t.Errorf("unobserved under pressure: %v, %v", has, act)
	}
}

func TestStillMet(t *testing.T) {
	all, _ := Parse(Settings{
		Hard:           map[string]string{"imagefs.available": "100Mi", "nodefs.available": "100Mi"},
		MinimumReclaim: map[string]string{"nodefs.available": "50Mi"},
	})
	got := stillMet(all, []int{0, 1}, observations{NodeFsAvailable: free(149), ImageFsAvailable: free(100)})
	if diff := cmp.Diff([]int{0}, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}
