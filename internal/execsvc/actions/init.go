package actions

import (
	v1 "k8s.io/api/core/v1"

	"github.com/podstream/podstream/internal/execsvc/criconfig"
	"github.com/podstream/podstream/internal/execsvc/observed"
)

// initContainers runs them one after the other, and keeps the sidecars among them running. done means that the main containers'
// turn has come; failed, that one failed for good.
func (p *planner) initContainers() (done, failed bool) {
	reached := p.reached()
	for i := range p.Pod.Spec.InitContainers {
		c := &p.Pod.Spec.InitContainers[i]
		last := p.Has.Latest(c.Name)
		switch {
		case i > reached:
			p.startInit(c, last)
			return false, false
		case IsSidecar(c):
			if started := p.sidecar(c, last); i == reached && !started {
				return false, false
			}
		case i < reached, last.State == observed.Exited && last.ExitCode == 0:
			// It is done: without it nobody would have come further.
		case last.State == observed.Running:
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

// reached is the index of the furthest init container that was made in this sandbox, -1 if there is none. It is beyond the last
// one if a main container was. That proves that those before it are done, even if they were removed since.
func (p *planner) reached() int {
	here := func(name string) bool {
		c := p.Has.Latest(name)
		return c != nil && c.SandboxID == p.do.SandboxID
	}
	for i := range p.Pod.Spec.Containers {
		if here(p.Pod.Spec.Containers[i].Name) {
			return len(p.Pod.Spec.InitContainers)
		}
	}
	for i := len(p.Pod.Spec.InitContainers) - 1; i >= 0; i-- {
		if here(p.Pod.Spec.InitContainers[i].Name) {
			return i
		}
	}
	return -1
}

// sidecar sees to it that a sidecar whose turn has come runs, whatever the pod's restart policy, and tells whether it has
// started: those after it wait for that.
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

// startInit starts an init container in this sandbox. If the one before runs on in an earlier sandbox it is stopped.
func (p *planner) startInit(c *v1.Container, last *observed.Container) {
	if last != nil && last.State == observed.Running && last.SandboxID != p.do.SandboxID {
		p.kill(Kill{Container: *last, Reason: inFormerSandbox, Grace: criconfig.GracePeriod(p.Pod), Restart: true})
	}
	p.start(Start{Container: c, Init: true, Last: last})
}

// initFailed tells whether an init container, not a sidecar, has failed for good. One of which the runtime has lost track can't
// have gone well, nor one that is stopped before its end.
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
