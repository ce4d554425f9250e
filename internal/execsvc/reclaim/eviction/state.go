package eviction

import (
	"maps"
	"slices"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
)

// observation is the available part and the capacity of a resource.
type observation struct{ available, capacity resource.Quantity }

// part returns which part of the capacity is available.
func (o observation) part() float64 {
	return o.available.AsApproximateFloat64() / o.capacity.AsApproximateFloat64()
}

// observations are by signal. A signal that could not be observed is absent, and meets no threshold.
type observations map[Signal]observation

// met reports whether less is available than the threshold, or with reclaim, than the threshold plus the minimum
// reclaim.
func (o observations) met(t Threshold, reclaim bool) bool {
	seen, known := o[t.signal]
	if !known {
		return false
	}
	least := t.value.of(seen.capacity)
	if reclaim {
		least.Add(t.minReclaim.of(seen.capacity))
	}
	return seen.available.Cmp(least) < 0
}

// state is carried from one synchronization to the next. Thresholds have their indexes in the parsed list.
type state struct {
	// firstObserved is when each threshold that is met was first observed so.
	firstObserved map[int]time.Time
	// met are the thresholds that were acted upon: they stay met until the minimum reclaim is available too.
	met map[int]bool
	// conditionLastObserved is when each condition last had a cause.
	conditionLastObserved map[v1.NodeConditionType]time.Time
}

// next returns the state after an observation, the node's conditions, and the indexes of the thresholds to act upon,
// the most important first.
func (s state) next(all []Threshold, seen observations, transition time.Duration, now time.Time) (
	after state, has map[v1.NodeConditionType]bool, act []int,
) {
	after = state{firstObserved: map[int]time.Time{}, met: map[int]bool{}, conditionLastObserved: maps.Clone(s.conditionLastObserved)}
	if after.conditionLastObserved == nil {
		after.conditionLastObserved = map[v1.NodeConditionType]time.Time{}
	}
	for i, t := range all {
		if !seen.met(t, s.met[i]) {
			continue
		}
		begun, before := s.firstObserved[i]
		if !before {
			begun = now
		}
		after.firstObserved[i] = begun
		after.conditionLastObserved[signals[t.signal].condition] = now
		if now.Sub(begun) >= t.gracePeriod {
			after.met[i] = true
			act = append(act, i)
		}
	}
	has = map[v1.NodeConditionType]bool{}
	for condition, at := range after.conditionLastObserved {
		if at.Equal(now) || now.Sub(at) < transition {
			has[condition] = true
		}
	}
	return after, has, act
}

// stillMet returns those of the thresholds that are still met, with their minimum reclaim.
func stillMet(all []Threshold, act []int, seen observations) []int {
	return slices.DeleteFunc(slices.Clone(act), func(i int) bool { return !seen.met(all[i], true) })
}
