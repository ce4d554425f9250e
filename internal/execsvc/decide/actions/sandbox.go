package actions

import (
	v1 "k8s.io/api/core/v1"

	"github.com/podstream/podstream/internal/execsvc/pod/observed"
	"github.com/podstream/podstream/internal/execsvc/pod/podmeta"
)

// needsSandbox reports whether the pod needs a new sandbox, and returns the attempt number of the sandbox for its next
// containers.
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

// firstContainers adds the containers that start in a new sandbox: the first init container, or else the main ones that
// aren't done. Running containers end with the old sandbox.
func (p *planner) firstContainers() {
	for i := range p.Pod.Spec.InitContainers {
		c := &p.Pod.Spec.InitContainers[i]
		if last := p.Has.Latest(c.Name); last != nil && !podmeta.IsSidecar(c) && initFailed(p.Pod, c, last) {
			return
		}
	}
	var start []Start
	for i := range p.Pod.Spec.Containers {
		c := &p.Pod.Spec.Containers[i]
		last := p.Has.Latest(c.Name)
		if last != nil && last.State == observed.Unknown && policyOf(p.Pod, c) == v1.RestartPolicyNever {
			// It may have run: no container runs twice because of a new sandbox.
			continue
		}
		if Restarts(p.Pod, c, last) {
			start = append(start, Start{Container: c, Last: last})
		}
	}
	if len(start) > 0 && len(p.Pod.Spec.InitContainers) > 0 {
		c := &p.Pod.Spec.InitContainers[0]
		start = []Start{{Container: c, Init: true, Last: p.Has.Latest(c.Name)}}
	}
	for _, s := range start {
		p.start(s)
	}
}
