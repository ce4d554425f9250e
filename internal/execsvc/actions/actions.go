package actions

import (
	v1 "k8s.io/api/core/v1"

	"github.com/podstream/podstream/internal/execsvc/criconfig"
	"github.com/podstream/podstream/internal/execsvc/observed"
)

// Input is what Compute decides on.
type Input struct {
	Pod *v1.Pod
	// Has is what the runtime has of the pod.
	Has *observed.Pod
	// Probes are what the probes of its running containers say.
	Probes observed.Probes
	// Outgrown are the IDs of running containers that have to start anew for the resources that they are to have. Nil: none has.
	Outgrown map[string]bool
}

// Actions is what a pod needs next, in the order of the fields.
type Actions struct {
	// KillPod stops everything that the pod has, sandboxes included.
	KillPod bool
	// RestartAll is the container whose end, Last, restarts the whole pod in its sandbox, or nil. Kill and Remove then take away
	// all that the pod has but its sandbox and its ephemeral containers; what it needs next is to be computed anew.
	RestartAll *Start
	// Kill are running containers to stop, each with its reason.
	Kill []Kill
	// Remove are containers to remove before others are made, in this order.
	Remove []observed.Container
	// CreateSandbox makes a new sandbox. Otherwise the containers go into SandboxID. SandboxAttempt is that of either.
	CreateSandbox  bool
	SandboxAttempt uint32
	SandboxID      string
	// Start are containers to make and start, in this order.
	Start []Start
}

// Any tells whether there is anything to do. A pod that is to be killed and isn't active needs nothing.
func (a *Actions) Any(has *observed.Pod) bool {
	return a.KillPod && has.Active() || a.CreateSandbox || len(a.Kill)+len(a.Remove)+len(a.Start) > 0
}

// Kill is a container to stop.
type Kill struct {
	Container observed.Container
	// Reason is a predicate of the container: "failed liveness probe".
	Reason string
	// Grace is how long it gets to end by itself, in seconds.
	Grace int64
	// Restart is set if a successor is to be started.
	Restart bool
	// Hold is set if it does what it should until then: it needn't be stopped before the successor's image is there.
	Hold bool
}

// Start is a container to make and start.
type Start struct {
	Container *v1.Container
	Init      bool
	// Ephemeral containers depend on no other container, and none depends on them. Target is the name of the container whose
	// processes such a one is to see, or empty.
	Ephemeral bool
	Target    string
	Attempt   uint32
	// Last is the container of this name before, or nil: its end counts for the backoff.
	Last *observed.Container
}

// Compute decides what a pod needs.
func Compute(in Input) Actions {
	p := &planner{Input: in}
	if source := restartsAll(in); source != nil {
		p.restartAll(source)
		return p.do
	}
	fresh, attempt := needsSandbox(in.Pod, in.Has)
	p.do.SandboxAttempt = attempt
	if fresh {
		p.do.KillPod = len(in.Has.Sandboxes) > 0 || in.Has.Active()
		p.firstContainers()
		// A pod whose containers have all done their work gets no new sandbox for it.
		p.do.CreateSandbox = len(p.do.Start) > 0
		return p.do
	}
	p.do.SandboxID = in.Has.Sandboxes[0].ID
	p.ephemeralContainers()
	done, failed := p.initContainers()
	switch {
	case failed:
		return p.killPod()
	case !done:
		return p.do
	}
	if !p.mainContainers() {
		return p.killPod()
	}
	return p.do
}

// planner gathers the actions for one pod.
type planner struct {
	Input
	do Actions
}

// killPod are the actions for a pod that is done: they stop what was to be stopped, too, and start nothing.
func (p *planner) killPod() Actions { return Actions{KillPod: true, SandboxID: p.do.SandboxID} }

// kill stops a container that runs, or may run.
func (p *planner) kill(k Kill) { p.do.Kill = append(p.do.Kill, k) }

// start makes and starts a container in the place of last, which may be nil. One that was made and never started (an agent was
// killed in between) is removed and its attempt used again; one of which the runtime has lost track is stopped. One that runs is
// up to the caller.
func (p *planner) start(s Start) {
	switch last := s.Last; {
	case last == nil:
	case last.State == observed.Created:
		p.do.Remove = append(p.do.Remove, *last)
		s.Attempt = last.Attempt
	default:
		s.Attempt = last.Attempt + 1
		if last.State == observed.Unknown {
			p.kill(Kill{Container: *last, Reason: "is in an unknown state", Grace: criconfig.GracePeriod(p.Pod), Restart: true})
		}
	}
	p.do.Start = append(p.do.Start, s)
}

// ephemeralContainers start once each, and never again, however the others fare.
func (p *planner) ephemeralContainers() {
	for i := range p.Pod.Spec.EphemeralContainers {
		e := &p.Pod.Spec.EphemeralContainers[i]
		last := p.Has.Latest(e.Name)
		if last != nil && last.State != observed.Created {
			continue
		}
		p.start(Start{
			Container: (*v1.Container)(&e.EphemeralContainerCommon), Ephemeral: true, Target: e.TargetContainerName, Last: last,
		})
	}
}
