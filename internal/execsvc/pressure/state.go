package pressure

import (
	"maps"
	"slices"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
)

// observation is how much of something there is, and how much of that is available.
type observation struct{ available, capacity resource.Quantity }

// observations are by signal. What couldn't be read isn't in it, and then says nothing.
type observations map[Signal]observation

// crossed tells whether less is available than the threshold, or than the threshold and what is to be won back.
func (o observations) crossed(t Threshold, reclaim bool) bool {
	seen, known := o[t.signal]
	if !known {
		return false
	}
	least := t.amount.of(seen.capacity)
	if reclaim {
		least.Add(t.reclaim.of(seen.capacity))
	}
	return seen.available.Cmp(least) < 0
}

// state is what is remembered from one look to the next. Thresholds are numbered as they were parsed.
type state struct {
	// since is when a threshold was crossed that still is.
	since map[int]time.Time
	// acted are those that were acted upon: they last until what is to be won back is there.
	acted map[int]bool
	// last is when there was a reason for a condition.
	last map[v1.NodeConditionType]time.Time
}

// next is the state after a look: with the conditions that the node has, and the numbers of the thresholds to act upon, the first one first.
func (s state) next(all []Threshold, seen observations, transition time.Duration, now time.Time) (
	after state, has map[v1.NodeConditionType]bool, act []int,
) {
	after = state{since: map[int]time.Time{}, acted: map[int]bool{}, last: maps.Clone(s.last)}
	if after.last == nil {
		after.last = map[v1.NodeConditionType]time.Time{}
	}
	for i, t := range all {
		if !seen.crossed(t, s.acted[i]) {
			continue
		}
		begun, before := s.since[i]
		if !before {
			begun = now
		}
		after.since[i] = begun
		after.last[kinds[t.signal].condition] = now
		if now.Sub(begun) >= t.grace {
			after.acted[i] = true
			act = append(act, i)
		}
	}
	has = map[v1.NodeConditionType]bool{}
	for condition, at := range after.last {
		if at.Equal(now) || now.Sub(at) < transition {
			has[condition] = true
		}
	}
	return after, has, act
}

// still are those of the thresholds that aren't well yet.
func still(all []Threshold, act []int, seen observations) []int {
	return slices.DeleteFunc(slices.Clone(act), func(i int) bool { return !seen.crossed(all[i], true) })
}
