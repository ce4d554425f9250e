package actions

import (
	"github.com/podstream/podstream/internal/execsvc/observed"
	v1 "k8s.io/api/core/v1"

	"github.com/podstream/podstream/internal/execsvc/criconfig"
)

// Actions is what a pod needs next, in the order of the fields.
type Actions struct {
	// KillPod stops everything that the pod has, sandboxes included.
	KillPod bool
	// Kill are running containers to stop, each with its reason.
	Kill []Kill
	// Remove are containers that never ran, to be removed before their successors are made.
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
	Reason    string
}

// Start is a container to make and start.
type Start struct {
	Container *v1.Container
	Init      bool
	Attempt   uint32
	// Last is the container of this name before, or nil: its end counts for the backoff.
	Last *observed.Container
}

// Compute decides what pod needs, given what the runtime has of it. It is pure. The rules are those of the kubelet's
// computePodActions.
func Compute(pod *v1.Pod, has *observed.Pod) Actions {
	a := Actions{}
	fresh, attempt := needsSandbox(pod, has)
	if fresh {
		a.KillPod, a.SandboxAttempt = len(has.Sandboxes) > 0 || has.Active(), attempt
		a.firstContainers(pod, has)
		// A pod whose containers have all done their work gets no new sandbox for it.
		a.CreateSandbox = len(a.Start) > 0
		return a
	}
	a.SandboxID, a.SandboxAttempt = has.Sandboxes[0].ID, attempt
	done, failed := a.initContainers(pod, has)
	switch {
	case failed:
		return Actions{KillPod: true, SandboxID: a.SandboxID}
	case !done:
		return a
	}
	keep := a.mainContainers(pod, has)
	if keep == 0 && len(a.Start) == 0 {
		// That stops what was to be stopped, too.
		return Actions{KillPod: true, SandboxID: a.SandboxID}
	}
	return a
}

// needsSandbox tells whether the pod can't go on in the sandbox that it has, and the attempt number of the next.
func needsSandbox(pod *v1.Pod, has *observed.Pod) (bool, uint32) {
	if len(has.Sandboxes) == 0 {
		return true, 0
	}
	ready := 0
	for _, s := range has.Sandboxes {
		if s.Ready {
			ready++
		}
	}
	latest := has.Sandboxes[0]
	next := latest.Attempt + 1
	switch {
	case ready > 1, !latest.Ready:
		return true, next
	case latest.HostNetwork != pod.Spec.HostNetwork:
		return true, next
	case !pod.Spec.HostNetwork && len(latest.IPs) == 0:
		return true, next
	}
	return false, latest.Attempt
}

// firstContainers are those that start in a new sandbox: the first init container, or else the main ones that still have
// something to do.
func (a *Actions) firstContainers(pod *v1.Pod, has *observed.Pod) {
	never := pod.Spec.RestartPolicy == v1.RestartPolicyNever
	for i := range pod.Spec.InitContainers {
		last := has.Latest(pod.Spec.InitContainers[i].Name)
		if never && last != nil && (last.State == observed.Running || failedInit(last)) {
			// It failed, or does now that its sandbox goes.
			return
		}
	}
	var start []Start
	for i := range pod.Spec.Containers {
		c := &pod.Spec.Containers[i]
		last := has.Latest(c.Name)
		if last != nil && (never && last.State == observed.Running || !restarts(pod.Spec.RestartPolicy, last)) {
			continue
		}
		start = append(start, a.replace(c, last))
	}
	if len(start) == 0 {
		return
	}
	if len(pod.Spec.InitContainers) > 0 {
		c := &pod.Spec.InitContainers[0]
		s := a.replace(c, has.Latest(c.Name))
		s.Init = true
		start = []Start{s}
	}
	a.Start = start
}

// initContainers runs them one after the other. done means that the main containers' turn has come; failed, that one failed
// for good.
func (a *Actions) initContainers(pod *v1.Pod, has *observed.Pod) (done, failed bool) {
	// A main container in this sandbox is proof that all went well, even if the init containers were removed since.
	for i := range pod.Spec.Containers {
		if c := has.Latest(pod.Spec.Containers[i].Name); c != nil && c.SandboxID == a.SandboxID {
			return true, false
		}
	}
	for i := range pod.Spec.InitContainers {
		c := &pod.Spec.InitContainers[i]
		last := has.Latest(c.Name)
		switch {
		case last == nil || last.SandboxID != a.SandboxID:
		case last.State == observed.Exited && last.ExitCode == 0:
			continue
		case last.State == observed.Running:
			return false, false
		case failedInit(last) && pod.Spec.RestartPolicy == v1.RestartPolicyNever:
			return false, true
		}
		s := a.replace(c, last)
		s.Init = true
		a.Start = append(a.Start, s)
		return false, false
	}
	return true, false
}

// mainContainers decides for each main container, and returns how many go on as they are.
func (a *Actions) mainContainers(pod *v1.Pod, has *observed.Pod) (keep int) {
	for i := range pod.Spec.Containers {
		c := &pod.Spec.Containers[i]
		last := has.Latest(c.Name)
		switch {
		case last == nil:
			a.Start = append(a.Start, a.start(c, nil))
		case last.State == observed.Running && last.Hash != criconfig.ContainerHash(c):
			a.Kill = append(a.Kill, Kill{Container: *last, Reason: "its definition changed"})
			a.Start = append(a.Start, a.start(c, last))
		case last.State == observed.Running && last.SandboxID == a.SandboxID:
			keep++
		case last.State == observed.Running:
			a.Kill = append(a.Kill, Kill{Container: *last, Reason: "it runs in a sandbox of the past"})
			if pod.Spec.RestartPolicy != v1.RestartPolicyNever {
				a.Start = append(a.Start, a.start(c, last))
			}
		case last.State == observed.Exited && last.Hash == criconfig.ContainerHash(c) && !restarts(pod.Spec.RestartPolicy, last):
		default:
			a.Start = append(a.Start, a.replace(c, last))
		}
	}
	return keep
}

// failedInit tells whether an init container has failed. One of which the runtime has lost track can't have gone well.
func failedInit(last *observed.Container) bool {
	return last.State == observed.Exited && last.ExitCode != 0 || last.State == observed.Unknown
}

// restarts tells whether an ended container is started again.
func restarts(policy v1.RestartPolicy, last *observed.Container) bool {
	if last.State != observed.Exited {
		return true
	}
	switch policy {
	case v1.RestartPolicyNever:
		return false
	case v1.RestartPolicyOnFailure:
		return last.ExitCode != 0
	default:
		return true
	}
}

// start is a container after last, which may be nil.
func (a *Actions) start(c *v1.Container, last *observed.Container) Start {
	s := Start{Container: c, Last: last}
	if last != nil {
		s.Attempt = last.Attempt + 1
	}
	return s
}

// replace is a container after last, which is first put out of the way unless it has ended: one that was made and never
// started (an agent was killed in between) is removed and its attempt used again; one in an unknown state is stopped.
func (a *Actions) replace(c *v1.Container, last *observed.Container) Start {
	s := a.start(c, last)
	switch {
	case last == nil:
	case last.State == observed.Created:
		a.Remove = append(a.Remove, *last)
		s.Attempt = last.Attempt
	case last.State == observed.Unknown:
		a.Kill = append(a.Kill, Kill{Container: *last, Reason: "its state is unknown"})
	}
	return s
}
