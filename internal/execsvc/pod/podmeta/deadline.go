package podmeta

import (
	"math"
	"time"

	v1 "k8s.io/api/core/v1"
)

// ActiveLeft returns how long a pod that started at started may still be active by its activeDeadlineSeconds: zero or less if it
// must end now. limited reports whether it has a deadline. A deadline beyond that which an API server accepts counts as the longest
// one.
func ActiveLeft(pod *v1.Pod, started, now time.Time) (left time.Duration, limited bool) {
	if pod.Spec.ActiveDeadlineSeconds == nil {
		return 0, false
	}
	seconds := min(max(*pod.Spec.ActiveDeadlineSeconds, 0), math.MaxInt32)
	return started.Add(time.Duration(seconds) * time.Second).Sub(now), true
}
