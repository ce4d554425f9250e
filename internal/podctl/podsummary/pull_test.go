package podsummary

import (
	"math"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"

	"github.com/podstream/podstream/internal/podctl/podctltest"
	podexecv1 "github.com/podstream/podstream/proto/podexec/v1"
)

// of is a progress; a negative total isn't known.
func of(done, total int64, doneLayers, totalLayers int32) *podexecv1.PullProgress {
	p := &podexecv1.PullProgress{DoneBytes: done, DoneLayers: doneLayers}
	if total >= 0 {
		p.TotalBytes, p.TotalLayers = &total, &totalLayers
	}
	return p
}

func TestPullProgress(t *testing.T) {
	for _, tc := range []struct {
		progress *podexecv1.PullProgress
		text     string
		percent  int
		ok       bool
	}{
		{nil, "", 0, false},
		{of(5_000_000, -1, 1, 0), "5MB, 1 layers", 0, false},
		{of(0, 100, 0, 2), "0B of 100B, 0 of 2 layers", 0, true},
		{of(999, 1000, 1, 2), "999B of 1kB, 1 of 2 layers", 99, true},
		{of(1000, 1000, 2, 2), "unpacking 1kB, 2 layers", 100, true},
		{of(0, 0, 0, 1), "0B of 0B, 0 of 1 layers", 100, true},
		{of(math.MaxInt64-1, math.MaxInt64, 0, 1), "9.22EB of 9.22EB, 0 of 1 layers", 100, true},
		{of(-5, 100, 0, 1), "0B of 100B, 0 of 1 layers", 0, false},
		{&podexecv1.PullProgress{TotalBytes: ptr.To[int64](-1)}, "unpacking 0B, 0 layers", 0, false},
	} {
		percent, ok := PullPercent(tc.progress)
		if text := PullProgress(tc.progress); text != tc.text || percent != tc.percent || ok != tc.ok {
			t.Errorf("%v: %q, %d %t; want %q, %d %t", tc.progress, text, percent, ok, tc.text, tc.percent, tc.ok)
		}
	}
}

// A pod that waits for a pull shows how far it is, and the least advanced of several. Other words win.
func TestPullingStatus(t *testing.T) {
	both := Answered{Podconfigd: true, Podexecd: true}
	for name, tc := range map[string]struct {
		reason string
		pulls  []*podexecv1.PullProgress
		want   string
	}{
		"no pull":      {"ContainerCreating", nil, "ContainerCreating"},
		"unknown":      {"ContainerCreating", []*podexecv1.PullProgress{nil, of(5, -1, 0, 0)}, "ContainerCreating"},
		"one":          {"ContainerCreating", []*podexecv1.PullProgress{of(43, 100, 0, 1)}, "Pulling 43%"},
		"several":      {"ContainerCreating", []*podexecv1.PullProgress{of(90, 100, 0, 1), of(12, 100, 0, 1), nil}, "Pulling 12%"},
		"another word": {"CrashLoopBackOff", []*podexecv1.PullProgress{of(43, 100, 0, 1)}, "CrashLoopBackOff"},
	} {
		status := &corev1.PodStatus{Phase: corev1.PodPending, ContainerStatuses: []corev1.ContainerStatus{podctltest.Waiting("web", tc.reason, "")}}
		p := &Pod{
			Ref: podctltest.Ref("file", "default", "web").GetRef(), Desired: podctltest.Ref("file", "default", "web"), Content: podctltest.Pod("default", "web"),
			Observed: podctltest.Observed(t, "default", "web", status), Status: status,
		}
		for _, progress := range tc.pulls {
			p.Observed.Pulls = append(p.Observed.Pulls, &podexecv1.ImagePull{Image: "a:1", Progress: progress})
		}
		r := p.Row(both, podctltest.Noon)
		if r.Status != tc.want {
			t.Errorf("%s: %s; want %s", name, r.Status, tc.want)
		}
		if doc := p.Document(r); len(doc.Observed.Pulls) != len(tc.pulls) {
			t.Errorf("%s: the document has the pulls %v", name, doc.Observed.Pulls)
		}
	}
}

func TestSize(t *testing.T) {
	for bytes, want := range map[uint64]string{
		0: "0B", 999: "999B", 1000: "1kB", 4_261_574: "4.26MB", 85_200_000: "85.2MB", 999_499_999: "999MB", 999_500_000: "1GB", math.MaxUint64: "18.4EB",
	} {
		if got := Size(bytes); got != want {
			t.Errorf("%d: %s; want %s", bytes, got, want)
		}
	}
}
