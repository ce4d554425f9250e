package shutdown

import (
	"cmp"
	"slices"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"
)

// Period is the time in which the pods of a priority, and of higher ones up to that of the next Period, end.
type Period struct {
	Priority int32
	Time     time.Duration
}

// systemCritical is the priority from which on a pod is critical, in the kubelet's division into two groups.
const systemCritical = 2_000_000_000

// Periods returns the periods of shutdownGracePeriod and shutdownGracePeriodCriticalPods. They are in whole seconds, as
// with the kubelet. None: the node has no graceful shutdown.
func Periods(total, critical time.Duration) []Period {
	if total <= 0 || critical < 0 || critical > total {
		return nil
	}
	return []Period{{0, (total - critical).Truncate(time.Second)}, {systemCritical, critical.Truncate(time.Second)}}
}

// Total returns the time of all periods, at most longest.
func Total(periods []Period) time.Duration {
	var sum time.Duration
	for _, p := range periods {
		sum += min(p.Time, longest-sum)
	}
	return sum
}

// longest is longer than all shutdowns: the sum of the longest periods overflows.
const longest = 365 * 24 * time.Hour

// within returns the periods, shortened in proportion if they take longer than that.
func within(periods []Period, most time.Duration) []Period {
	total := Total(periods)
	if total <= most {
		return periods
	}
	factor := float64(max(most, 0)) / float64(total)
	out := slices.Clone(periods)
	for i := range out {
		out[i].Time = time.Duration(float64(out[i].Time) * factor)
	}
	return out
}

// group are the pods that end together.
type group struct {
	Period
	pods []*v1.Pod
}

// groups returns the groups that have pods, in the order in which they end: that of their priorities. A pod of a lower
// priority than all periods is in the first group.
func groups(periods []Period, pods []*v1.Pod) []group {
	if len(periods) == 0 {
		return nil
	}
	sorted := slices.SortedStableFunc(slices.Values(periods), func(a, b Period) int { return cmp.Compare(a.Priority, b.Priority) })
	out := make([]group, len(sorted))
	for i, p := range sorted {
		out[i].Period = p
	}
	for _, pod := range pods {
		priority := ptr.Deref(pod.Spec.Priority, 0)
		after := slices.IndexFunc(sorted, func(p Period) bool { return p.Priority > priority })
		if after < 0 {
			after = len(out)
		}
		i := max(after-1, 0)
		out[i].pods = append(out[i].pods, pod)
	}
	return slices.DeleteFunc(out, func(g group) bool { return len(g.pods) == 0 })
}

// grace returns the seconds that a pod of the group has to end: its own, or those of the group if these are fewer.
func (g group) grace(pod *v1.Pod) int64 {
	seconds := int64(g.Time / time.Second)
	if own := pod.Spec.TerminationGracePeriodSeconds; own != nil {
		seconds = min(seconds, *own)
	}
	return seconds
}
