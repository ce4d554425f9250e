package pleg

import (
	"k8s.io/apimachinery/pkg/types"

	"github.com/podstream/podstream/internal/execsvc/runtime"
)

// Compare tells what happened between two readings of one pod; either may be nil. A sandbox counts as a container that runs
// while it is ready, as in the kubelet.
func Compare(old, now *runtime.Pod) []Event {
	before, after := states(old), states(now)
	uid := types.UID("")
	if now != nil {
		uid = now.UID
	} else if old != nil {
		uid = old.UID
	}
	var events []Event
	for _, s := range after {
		was, there := find(before, s.id)
		if there && was == s.state {
			continue
		}
		events = append(events, Event{UID: uid, Type: arrival(s.state), ID: s.id})
	}
	for _, s := range before {
		if _, there := find(after, s.id); there {
			continue
		}
		if s.state != runtime.Exited {
			events = append(events, Event{UID: uid, Type: ContainerDied, ID: s.id})
		}
		events = append(events, Event{UID: uid, Type: ContainerRemoved, ID: s.id})
	}
	return events
}

// arrival is the event of a container that is now in that state.
func arrival(s runtime.State) EventType {
	switch s {
	case runtime.Running:
		return ContainerStarted
	case runtime.Exited:
		return ContainerDied
	default:
		return ContainerChanged
	}
}

type idState struct {
	id    string
	state runtime.State
}

func states(p *runtime.Pod) []idState {
	if p == nil {
		return nil
	}
	out := make([]idState, 0, len(p.Containers)+len(p.Sandboxes))
	for _, c := range p.Containers {
		out = append(out, idState{c.ID, c.State})
	}
	for _, s := range p.Sandboxes {
		state := runtime.Exited
		if s.Ready {
			state = runtime.Running
		}
		out = append(out, idState{s.ID, state})
	}
	return out
}

// find is linear: a pod has few containers.
func find(list []idState, id string) (runtime.State, bool) {
	for _, s := range list {
		if s.id == id {
			return s.state, true
		}
	}
	return 0, false
}
