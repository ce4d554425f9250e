package store

import (
	"maps"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/podstream/podstream/client"
	"github.com/podstream/podstream/internal/execsvc/decide/resize"
	podconfigv1 "github.com/podstream/podstream/proto/podconfig/v1"
)

// held is the state in memory. A value in it is never changed, only replaced.
type held struct {
	cursor   *podconfigv1.Cursor
	pods     map[types.UID]client.Pod
	statuses map[types.UID]Status
	ends     map[types.UID]End
	// allocations are the resources that pods were last allocated.
	allocations map[types.UID]resize.Allocation
	// removals are the times of the last removals.
	removals []time.Time
}

func newHeld() held {
	return held{
		pods: map[types.UID]client.Pod{}, statuses: map[types.UID]Status{}, ends: map[types.UID]End{},
		allocations: map[types.UID]resize.Allocation{},
	}
}

// state returns a copy for the agent.
func (h *held) state() State {
	return State{
		Cursor: h.cursor, Pods: slices.Collect(maps.Values(h.pods)), Statuses: maps.Clone(h.statuses), Ends: maps.Clone(h.ends),
		Allocations: maps.Clone(h.allocations), Removals: h.removals,
	}
}

// at returns the value at a place, or nil.
func (h *held) at(p place) any {
	var value any
	var ok bool
	switch p.table {
	case pods:
		value, ok = h.pods[p.uid]
	case statuses:
		value, ok = h.statuses[p.uid]
	case ends:
		value, ok = h.ends[p.uid]
	default:
		value, ok = h.allocations[p.uid]
	}
	if !ok {
		return nil
	}
	return value
}

// all returns all values by their place.
func (h *held) all() map[place]any {
	values := make(map[place]any, len(h.pods)+len(h.statuses)+len(h.ends)+len(h.allocations))
	for uid, pod := range h.pods {
		values[place{pods, uid}] = pod
	}
	for uid, status := range h.statuses {
		values[place{statuses, uid}] = status
	}
	for uid, end := range h.ends {
		values[place{ends, uid}] = end
	}
	for uid, allocation := range h.allocations {
		values[place{allocations, uid}] = allocation
	}
	return values
}
