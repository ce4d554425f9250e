package pleg

import (
	"k8s.io/apimachinery/pkg/types"

	"github.com/podstream/podstream/internal/execsvc/pod/observed"
)

// Compare returns the events between two readings of one pod; either may be nil. A sandbox counts as a container that
// runs while it is ready, as in the kubelet.
func Compare(old, now *observed.Pod) []Event {
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
		if s.state != observed.Exited {
			events = append(events, Event{UID: uid, Type: ContainerDied, ID: s.id})
		}
		events = append(events, Event{UID: uid, Type: ContainerRemoved, ID: s.id})
	}
	return events
}

// shows reports whether a reading, which may be nil, has all states of an event: each container is at least as far.
// States only advance: created, running, exited. A container that the reading lacks may be new, or removed.
func shows(reading, reported *observed.Pod) bool {
	news, seen := states(reported), states(reading)
	for _, s := range news {
		if state, there := find(seen, s.id); !there || s.state == observed.Unknown || state < s.state {
			return false
		}
	}
	return len(news) > 0
}

// arrival returns the event of a container that enters that state.
func arrival(s observed.State) EventType {
	switch s {
	case observed.Running:
		return ContainerStarted
	case observed.Exited:
		return ContainerDied
	default:
		return ContainerChanged
	}
}

type idState struct {
	id    string
	state observed.State
	// pid is 0 if it isn't known.
	pid int
}

func states(p *observed.Pod) []idState {
	if p == nil {
		return nil
	}
	out := make([]idState, 0, len(p.Containers)+len(p.Sandboxes))
	for _, c := range p.Containers {
		out = append(out, idState{c.ID, c.State, c.PID})
	}
	for _, s := range p.Sandboxes {
		state := observed.Exited
		if s.Ready {
			state = observed.Running
		}
		out = append(out, idState{s.ID, state, s.PID})
	}
	return out
}

// find is linear: a pod has few containers.
func find(list []idState, id string) (observed.State, bool) {
	for _, s := range list {
		if s.id == id {
			return s.state, true
		}
	}
	return 0, false
}
