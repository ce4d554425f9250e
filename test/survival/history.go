package survival

import (
	"time"

	v1 "k8s.io/api/core/v1"
)

// History is all that was done to a node and all that was seen of it. Deeds, Looks and Statuses are in the order of
// their times.
type History struct {
	// Plans are all pods that were ever desired, by UID.
	Plans    map[string]Plan
	Deeds    []Deed
	Looks    []Look
	Statuses []Status
	// Runs are from the containers' diaries, those of one container in the order of their starts.
	Runs []Run
	// Whole is set where a start is whole or not at all: in a simulated runtime it can't be cut short.
	Whole bool
}

// Plan is what becomes of a pod without an interruption.
type Plan struct {
	UID, Name  string
	Policy     v1.RestartPolicy
	Grace      time.Duration
	Containers []Container
}

// Container is a container of a Plan.
type Container struct {
	Name string
	Fate Fate
	// Init is set for what runs before the others. A sidecar isn't.
	Init bool
	// Sidecar is set for what is told to end when the others have ended.
	Sidecar bool
	// Takes is how long it takes to end by itself after SIGTERM. Negative: it never does.
	Takes time.Duration
}

// Fate is what a container comes to by itself.
type Fate int

// The fates.
const (
	// Stays runs for ever.
	Stays Fate = iota
	// Ends comes to an end that its policy doesn't undo.
	Ends
	// Crashes ends and is started again, for ever.
	Crashes
	// Settles fails a few times, and then stays.
	Settles
)

// only reports whether all containers have that fate; what runs before the others doesn't count.
func (p Plan) only(fate Fate) bool {
	for _, c := range p.Containers {
		if c.Fate != fate && !c.Init {
			return false
		}
	}
	return true
}

func (p Plan) container(name string) (Container, bool) {
	for _, c := range p.Containers {
		if c.Name == name {
			return c, true
		}
	}
	return Container{}, false
}

// Kind is a kind of Deed.
type Kind string

// The kinds.
const (
	// Desire is a manifest that is written, Drop one that is removed or replaced, Relabel a change that no container
	// may notice.
	Desire  Kind = "desire"
	Drop    Kind = "drop"
	Relabel Kind = "relabel"
	// AgentKilled is podexecd killed at any moment, AgentDied by its own hand at a failpoint, AgentStarted is its
	// next start.
	AgentKilled  Kind = "podexecd is killed"
	AgentDied    Kind = "podexecd dies"
	AgentStarted Kind = "podexecd starts"
	// ConfigKilled and ConfigStarted are podconfigd's.
	ConfigKilled  Kind = "podconfigd is killed"
	ConfigStarted Kind = "podconfigd starts"
	// RuntimeKilled and RuntimeStarted are the runtime's. Its containers live on, unless a Harm says otherwise.
	RuntimeKilled  Kind = "the runtime is killed"
	RuntimeStarted Kind = "the runtime starts"
	// Harm is done to the containers of a pod, or of all: they are killed, or the runtime forgets them.
	Harm Kind = "harm"
)

// Deed is something that was done. At is just before.
type Deed struct {
	At   time.Time
	Kind Kind
	// Pod is the UID. Empty: it is about all, or none in particular.
	Pod string
	// Note says more, for people.
	Note string
}

// Look is what the node looked like at some time from At to Until.
type Look struct {
	At, Until time.Time
	// Quiet is set when all that was begun had the time to come to its end.
	Quiet      bool
	Sandboxes  []Sandbox
	Containers []CRIContainer
	Traces     []Trace
	// Phases are what podexecd showed, by UID. Nil: it wasn't asked.
	Phases map[string]v1.PodPhase
}

// Sandbox is one that the runtime has.
type Sandbox struct {
	ID, UID string
	Ready   bool
}

// CRIContainer is a container that the runtime has.
type CRIContainer struct {
	ID, UID, Name string
	Running       bool
}

// Trace is something that a pod leaves on the node's disk, mount table or cgroups: of the pod with that UID, of the
// sandbox or container with that ID, or of both.
type Trace struct {
	Path    string
	UID, ID string
	// Own is set for what the runtime makes and removes by itself.
	Own bool
}

// Status is what podexecd showed of a pod at a time.
type Status struct {
	At    time.Time
	UID   string
	Ready bool
	// Since is when readiness last changed, as the status itself tells.
	Since time.Time
}

// Run is one run of a container, by its own diary.
type Run struct {
	UID, Container string
	// ID tells runs apart.
	ID    string
	Start time.Time
	// Term is the first SIGTERM, End is when it ended by itself, with Code. Zero: that didn't come.
	Term, End time.Time
	Code      int
}

// desired are the UIDs that were desired at a time.
func (h *History) desired(at time.Time) map[string]bool {
	out := map[string]bool{}
	for _, d := range h.Deeds {
		if d.At.After(at) {
			break
		}
		switch d.Kind {
		case Desire:
			out[d.Pod] = true
		case Drop:
			delete(out, d.Pod)
		}
	}
	return out
}

// did is the last deed of these kinds to the pod, or to all, from a time up to another.
func (h *History) did(pod string, from, to time.Time, kinds ...Kind) (Deed, bool) {
	for i := len(h.Deeds) - 1; i >= 0; i-- {
		d := h.Deeds[i]
		if d.At.After(to) || d.At.Before(from) || (d.Pod != "" && d.Pod != pod) {
			continue
		}
		for _, k := range kinds {
			if d.Kind == k {
				return d, true
			}
		}
	}
	return Deed{}, false
}
