package podmeta

import (
	"math"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"
)

// TestActiveLeft: a deadline that no API server accepts doesn't overflow.
func TestActiveLeft(t *testing.T) {
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	for _, test := range []struct {
		seconds int64
		since   time.Duration
		want    time.Duration
	}{
		{60, 0, time.Minute}, {60, 59 * time.Second, time.Second}, {60, time.Minute, 0}, {60, time.Hour, -59 * time.Minute},
		{math.MaxInt64, time.Second, (math.MaxInt32 - 1) * time.Second}, {math.MinInt64, time.Second, -time.Second},
	} {
		pod := &v1.Pod{Spec: v1.PodSpec{ActiveDeadlineSeconds: ptr.To(test.seconds)}}
		if left, limited := ActiveLeft(pod, now.Add(-test.since), now); left != test.want || !limited {
			t.Errorf("%d s, after %v: %v, %v; want %v", test.seconds, test.since, left, limited, test.want)
		}
	}
	if left, limited := ActiveLeft(&v1.Pod{}, now, now); left != 0 || limited {
		t.Errorf("without a deadline: %v, %v", left, limited)
	}
}
