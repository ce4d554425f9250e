package actions

import (
	v1 "k8s.io/api/core/v1"

	"github.com/podstream/podstream/internal/execsvc/pod/observed"
	"github.com/podstream/podstream/internal/execsvc/pod/podmeta"
)

// Input is the input of Compute.
type Input struct {
	Pod *v1.Pod
	// Has is the pod's state in the runtime.
	Has *observed.Pod
	// Probes are the results of the probes of its running containers.
	Probes observed.Probes
	// Outgrown are the IDs of running containers that must restart to get their new resources. Nil: none.
	Outgrown map[string]bool
	// Requested are the containers whose restart an operator has requested. Nil: none.
	Requested Requested
}

// Actions are a pod's next actions, in the order of the fields.
type Actions struct {
	// KillPod stops all containers and sandboxes of the pod.
	KillPod bool
	// RestartAll is the container whose end, Last, restarts the whole pod in its sandbox, or nil. Kill and Remove then
	// cover all of the pod but its sandbox and its ephemeral containers, and Compute is called again after them.
	RestartAll *Start
	// Kill are running containers to stop, each with its reason.
	Kill []Kill
	// Remove are containers to remove before others are created, in this order.
	Remove []observed.Container
	// CreateSandbox creates a new sandbox. Otherwise the containers start in SandboxID. SandboxAttempt is the attempt
	// of either.
	CreateSandbox  bool
	SandboxAttempt uint32
	SandboxID      string
	// Start are containers to create and start, in this order.
	Start []Start
}

// Any reports whether there is an action. Killing a pod that isn't active is none.
func (a *Actions) Any(has *observed.Pod) bool {
	return a.KillPod && has.Active() || a.CreateSandbox || len(a.Kill)+len(a.Remove)+len(a.Start) > 0
}

// Kill is a container to stop.
type Kill struct {
	Container observed.Container
	// Reason is a predicate of the container: "failed liveness probe".
	Reason string
	// Grace is its grace period in seconds.
	Grace int64
	// Restart is set if a successor will start.
	Restart bool
	// Hold is set if the container works as it should until then: it needn't stop before the successor's image is
	// there.
	Hold bool
	// Requested is set if an operator has requested it. Such containers stop in the order of a pod's end.
	Requested bool
}

// Start is a container to create and start.
type Start struct {
	Container *v1.Container
	Init      bool
	// Ephemeral containers depend on no other container, and no container depends on them. Target is the name of the
	// container whose processes an ephemeral container sees, or empty.
	Ephemeral bool
	Target    string
	Attempt   uint32
	// Last is the previous container of this name, or nil: the backoff starts at its end.
	Last *observed.Container
	// Requested is set if an operator has requested it: no backoff delays it, and it resets the backoff.
	Requested bool
	// Await is set if the container starts only once its sidecars have started, although its predecessor stops now.
	Await bool
}

// Compute returns a pod's next actions.
func Compute(in Input) Actions {
	in.Has = in.Requested.Mark(in.Has)
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
		// A pod whose containers are all done gets no new sandbox.
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

// planner collects the actions for one pod.
type planner struct {
	Input
	do Actions
}

// killPod returns the actions for a pod that is done: all stops, no starts.
func (p *planner) killPod() Actions { return Actions{KillPod: true, SandboxID: p.do.SandboxID} }

// kill stops a container that runs, or may run.
func (p *planner) kill(k Kill) { p.do.Kill = append(p.do.Kill, k) }

// start creates and starts a container in place of last, which may be nil. A container that was created and never
// started (the agent was killed in between) is removed, and its attempt is used again. A container in an unknown state
// is stopped. Stopping a running one is up to the caller.
func (p *planner) start(s Start) {
	s.Requested = p.Requested.Has(s.Last)
	switch last := s.Last; {
	case last == nil:
	case last.State == observed.Created:
		p.do.Remove = append(p.do.Remove, *last)
		s.Attempt = last.Attempt
	default:
		s.Attempt = last.Attempt + 1
		if last.State == observed.Unknown {
			p.kill(Kill{Container: *last, Reason: "is in an unknown state", Grace: podmeta.GracePeriod(p.Pod), Restart: true})
		}
	}
	p.do.Start = append(p.do.Start, s)
}

// ephemeralContainers start once each, and never restart, whatever happens to the others.
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
