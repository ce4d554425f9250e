package actions

import (
	v1 "k8s.io/api/core/v1"

	"github.com/podstream/podstream/internal/execsvc/pod/observed"
	"github.com/podstream/podstream/internal/execsvc/pod/podmeta"
)

// initContainers runs the init containers one after the other, and keeps the sidecars among them running. done means
// that the main containers may start; failed, that an init container failed for good.
func (p *planner) initContainers() (done, failed bool) {
	reached := reached(p.Pod, p.Has, p.do.SandboxID)
	for i := range p.Pod.Spec.InitContainers {
		c := &p.Pod.Spec.InitContainers[i]
		last := p.Has.Latest(c.Name)
		switch {
		case i > reached:
			p.startInit(c, last)
			return false, false
		case podmeta.IsSidecar(c):
			if started := p.sidecar(c, last); i == reached && !started {
				return false, false
			}
		case i < reached, last.State == observed.Exited && last.ExitCode == 0 && !p.Requested.Has(last):
			// It is done: otherwise no later container could have started.
		case last.State == observed.Running:
			if k := p.requested(last); k != nil {
				p.kill(*k)
				p.start(Start{Container: c, Init: true, Last: last})
			}
			return false, false
		case initFailed(p.Pod, c, last):
			return false, true
		default:
			p.startInit(c, last)
			return false, false
		}
	}
	return true, false
}

// reached returns the index of the furthest init container that was created in this sandbox, -1 if there is none. It is
// beyond the last one if a main container was created. All init containers before it are done, even if they were
// removed since.
func reached(pod *v1.Pod, has *observed.Pod, sandbox string) int {
	here := func(name string) bool {
		c := has.Latest(name)
		return c != nil && c.SandboxID == sandbox
	}
	for i := range pod.Spec.Containers {
		if here(pod.Spec.Containers[i].Name) {
			return len(pod.Spec.InitContainers)
		}
	}
	for i := len(pod.Spec.InitContainers) - 1; i >= 0; i-- {
		if here(pod.Spec.InitContainers[i].Name) {
			return i
		}
	}
	return -1
}

// sidecar keeps a sidecar running, whatever the pod's restart policy, and reports whether it has started: the
// containers after it wait for that.
func (p *planner) sidecar(c *v1.Container, last *observed.Container) (started bool) {
	if last == nil || last.State != observed.Running {
		p.startInit(c, last)
		return false
	}
	if k := p.misfit(c, last); k != nil {
		k.Restart = true
		p.kill(*k)
		p.start(Start{Container: c, Init: true, Last: last})
		return false
	}
	return c.StartupProbe == nil || p.Probes[last.ID].Startup == observed.Success
}

// startInit starts an init container in this sandbox. If the previous one still runs in an earlier sandbox, it is
// stopped.
func (p *planner) startInit(c *v1.Container, last *observed.Container) {
	if last != nil && last.State == observed.Running && last.SandboxID != p.do.SandboxID {
		p.kill(Kill{Container: *last, Reason: inFormerSandbox, Grace: podmeta.GracePeriod(p.Pod), Restart: true})
	}
	p.start(Start{Container: c, Init: true, Last: last})
}

// initFailed reports whether an init container that is no sidecar has failed for good. A container in an unknown state,
// and one that is stopped before its end, can't have succeeded.
func initFailed(pod *v1.Pod, c *v1.Container, last *observed.Container) bool {
	switch last.State {
	case observed.Exited:
		return last.ExitCode != 0 && !Restarts(pod, c, last)
	case observed.Running, observed.Unknown:
		return policyOf(pod, c) == v1.RestartPolicyNever
	default:
		return false
	}
}
