package survival

import (
	"time"

	v1 "k8s.io/api/core/v1"
)

// History is all actions on a node and all observations of it. Deeds, Looks and Statuses are in the order of
// their times.
type History struct {
	// Plans are all pods that were ever desired, by UID.
	Plans    map[string]Plan
	Deeds    []Deed
	Looks    []Look
	Statuses []Status
	// Runs are from the containers' diaries. The runs of one container are in the order of their starts.
	Runs []Run
	// Whole is set if a start can't be cut short, as in a simulated runtime.
	Whole bool
}

// Plan is how a pod behaves without an interruption.
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
	// Init is set for an init container that isn't a sidecar.
	Init bool
	// Sidecar is set for a container that is stopped when the others have ended.
	Sidecar bool
	// Takes is how long it takes to end by itself after SIGTERM. Negative means that it never ends.
	Takes time.Duration
}

// Fate is how a container behaves by itself.
type Fate int

// The fates.
const (
	// Stays runs forever.
	Stays Fate = iota
	// Ends exits, and its restart policy doesn't restart it.
	Ends
	// Crashes exits and is restarted, forever.
	Crashes
	// Settles fails a few times, and then stays.
	Settles
)

// only reports whether all containers have that fate. Init containers don't count.
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
	// Desire is a manifest that is written, Drop one that is removed or replaced, and Relabel a change that
	// doesn't affect containers.
	Desire  Kind = "desire"
	Drop    Kind = "drop"
	Relabel Kind = "relabel"
	// AgentKilled means that the test killed podexecd, AgentDied that podexecd killed itself at a failpoint,
	// and AgentStarted that it was started again.
	AgentKilled  Kind = "podexecd is killed"
	AgentDied    Kind = "podexecd dies"
	AgentStarted Kind = "podexecd starts"
	// ConfigKilled and ConfigStarted are the same for podconfigd.
	ConfigKilled  Kind = "podconfigd is killed"
	ConfigStarted Kind = "podconfigd starts"
	// RuntimeKilled and RuntimeStarted are the same for the runtime. Its containers continue to run, unless
	// there is a Harm.
	RuntimeKilled  Kind = "the runtime is killed"
	RuntimeStarted Kind = "the runtime starts"
	// Harm means that the containers of a pod, or of all pods, were killed or were lost by the runtime.
	Harm Kind = "harm"
	// ShimKilled is a Harm too, which is a deed of its own: the shim of the pod was killed.
	ShimKilled Kind = "shim-killed"
)

// Deed is an action of the test. At is just before it.
type Deed struct {
	At   time.Time
	Kind Kind
	// Pod is the pod's UID. Empty means all pods, or none in particular.
	Pod string
	// Note is more text for the reader of a failure.
	Note string
}

// Look is the observed state of the node, at some time from At to Until.
type Look struct {
	At, Until time.Time
	// Quiet is set when everything that was started has had the time to end.
	Quiet      bool
	Sandboxes  []Sandbox
	Containers []CRIContainer
	Traces     []Trace
	// Phases are the phases that podexecd reported, by UID. Nil means that podexecd wasn't called.
	Phases map[string]v1.PodPhase
}

// Sandbox is a sandbox in the runtime.
type Sandbox struct {
	ID, UID string
	Ready   bool
}

// CRIContainer is a container in the runtime.
type CRIContainer struct {
	ID, UID, Name string
	Running       bool
}

// Trace is something that a pod leaves on the node's disk, in its mount table or in its cgroups. It belongs to
// the pod with that UID, to the sandbox or container with that ID, or to both.
type Trace struct {
	Path    string
	UID, ID string
	// Own is set for traces that the runtime itself creates and removes.
	Own bool
	// Forgotten is set for a mount of a sandbox that the runtime failed to clean up, according to its own log.
	Forgotten bool
}

// Status is what podexecd reported of a pod at a time.
type Status struct {
	At    time.Time
	UID   string
	Ready bool
	// Since is when readiness last changed, according to the status.
	Since time.Time
}

// Run is one run of a container, from its diary.
type Run struct {
	UID, Container string
	// ID identifies the run.
	ID    string
	Start time.Time
	// Term is the time of the first SIGTERM. End is the time at which it ended by itself, with Code. Zero means
	// never.
	Term, End time.Time
	Code      int
}

// desired returns the UIDs of the pods that were desired at a time.
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

// did returns the last deed of these kinds on the pod, or on all pods, between two times.
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
