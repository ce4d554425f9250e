package actions

import (
	v1 "k8s.io/api/core/v1"

	"github.com/podstream/podstream/internal/execsvc/pod/criconfig"
	"github.com/podstream/podstream/internal/execsvc/pod/observed"
	"github.com/podstream/podstream/internal/execsvc/pod/podmeta"
)

const inFormerSandbox = "runs in a former sandbox"

// mainContainers decides for each main container, and reports whether any of them goes on or starts. If none does, the
// pod is done, even if sidecars run.
func (p *planner) mainContainers() (alive bool) {
	for i := range p.Pod.Spec.Containers {
		c := &p.Pod.Spec.Containers[i]
		last := p.Has.Latest(c.Name)
		switch {
		case last == nil, last.State != observed.Running && last.State != observed.Exited:
			p.start(Start{Container: c, Last: last})
		case last.State == observed.Exited:
			// As in the kubelet, a new image alone doesn't restart it.
			if !Restarts(p.Pod, c, last) {
				continue
			}
			p.start(Start{Container: c, Last: last, Await: p.Requested.Has(last) && p.awaitsSidecars()})
		default:
			k := p.misfit(c, last)
			if k == nil {
				break
			}
			k.Restart = k.Restart || !criconfig.SameContainer(c, last.Hash) || policyOf(p.Pod, c) != v1.RestartPolicyNever
			p.kill(*k)
			if !k.Restart {
				continue
			}
			p.start(Start{Container: c, Last: last, Await: k.Requested && p.awaitsSidecars()})
		}
		alive = true
	}
	return alive
}

// misfit returns the reason why a running container can't go on, or nil.
func (p *planner) misfit(c *v1.Container, last *observed.Container) *Kill {
	k := p.unfit(c, last)
	if asked := p.requested(last); asked != nil {
		asked.Hold = k == nil || k.Hold
		return asked
	}
	return k
}

// unfit returns the reason, besides a request, why a running container can't go on, or nil.
func (p *planner) unfit(c *v1.Container, last *observed.Container) *Kill {
	grace, probed := podmeta.GracePeriod(p.Pod), p.Probes[last.ID]
	switch {
	case last.SandboxID != p.do.SandboxID:
		return &Kill{Container: *last, Reason: inFormerSandbox, Grace: grace, Hold: true}
	case !criconfig.SameContainer(c, last.Hash):
		return &Kill{Container: *last, Reason: "definition changed", Grace: grace, Hold: true}
	case probed.Liveness == observed.Failure:
		return &Kill{Container: *last, Reason: "failed liveness probe", Grace: probeGrace(p.Pod, c.LivenessProbe)}
	case probed.Startup == observed.Failure:
		return &Kill{Container: *last, Reason: "failed startup probe", Grace: probeGrace(p.Pod, c.StartupProbe)}
	case p.Outgrown[last.ID]:
		return &Kill{Container: *last, Reason: "resize requires restart", Grace: grace, Hold: true, Restart: true}
	}
	return nil
}

// probeGrace returns the grace period of a container that failed this probe.
func probeGrace(pod *v1.Pod, probe *v1.Probe) int64 {
	if probe != nil && probe.TerminationGracePeriodSeconds != nil && pod.DeletionGracePeriodSeconds == nil {
		return *probe.TerminationGracePeriodSeconds
	}
	return podmeta.GracePeriod(pod)
}
