package admit

import (
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podstream/podstream/internal/execsvc/pod/podmeta"
)

// Critical pods come first, then older ones. The age comes from the API server or from podconfigd.
func TestCompare(t *testing.T) {
	start := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	made := func(uid string, after time.Duration) *v1.Pod {
		pod := podOf(uid)
		pod.CreationTimestamp = metav1.NewTime(start.Add(after))
		return pod
	}
	seen := func(uid string, after time.Duration) *v1.Pod {
		pod := fromFile(podOf(uid))
		pod.Annotations[podmeta.SeenAnnotation] = start.Add(after).Format(time.RFC3339Nano)
		return pod
	}
	garbled := fromFile(podOf("garbled"))
	garbled.Annotations[podmeta.SeenAnnotation] = "yesterday"
	// The creation time of the API server counts, and not when podconfigd first read the pod.
	late := made("a-late", time.Hour)
	late.Annotations = map[string]string{podmeta.SeenAnnotation: start.Format(time.RFC3339Nano)}
	want := []*v1.Pod{
		garbled,
		seen("b-static", time.Millisecond),
		withPriority(made("critical", time.Second), 2_000_000_000),
		seen("a-static", 2*time.Second),
		made("z-first", 0),
		made("twin-1", time.Minute), made("twin-2", time.Minute),
		withPriority(late, 1_000_000),
	}
	got := slices.Clone(want)
	slices.Reverse(got)
	slices.SortFunc(got, Compare)
	if diff := cmp.Diff(uidsOf(want), uidsOf(got)); diff != "" {
		t.Errorf("order (-want +got):\n%s", diff)
	}
	if Compare(late, late) != 0 {
		t.Error("a pod comes before itself")
	}
}

func uidsOf(pods []*v1.Pod) []types.UID {
	var uids []types.UID
	for _, pod := range pods {
		uids = append(uids, pod.UID)
	}
	return uids
}
