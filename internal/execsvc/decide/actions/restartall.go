package actions

import (
	"slices"

	v1 "k8s.io/api/core/v1"

	"github.com/podstream/podstream/internal/execsvc/pod/observed"
)

// restartsAll returns the container whose end restarts all the others, by one of its rules, or nil.
func restartsAll(in Input) *Start {
	for _, c := range resettable(in.Pod) {
		// The end of a container whose restart was requested isn't its own.
		if last := in.Has.Latest(c.Name); last != nil && asksForAll(c, last) && !in.Requested.Has(last) {
			return &Start{Container: c, Last: last}
		}
	}
	return nil
}

func asksForAll(c *v1.Container, last *observed.Container) bool {
	return last.State == observed.Exited && ruleFor(c, last.ExitCode) == v1.ContainerRestartRuleActionRestartAllContainers
}

// restartAll removes all containers, without waiting for them to end by themselves. The containers with the rule go
// last: while one of them exists the restart isn't complete, also after a restart of the agent.
func (p *planner) restartAll(source *Start) {
	p.do.RestartAll = source
	containers := resettable(p.Pod)
	var sources []observed.Container
	for _, had := range p.Has.Containers {
		i := slices.IndexFunc(containers, func(c *v1.Container) bool { return c.Name == had.Name })
		if i < 0 {
			continue
		}
		if had.State == observed.Running || had.State == observed.Unknown {
			p.kill(Kill{Container: had, Reason: "is restarted with all containers of the pod", Restart: true})
		}
		if asksForAll(containers[i], &had) {
			sources = append(sources, had)
			continue
		}
		p.do.Remove = append(p.do.Remove, had)
	}
	p.do.Remove = append(p.do.Remove, sources...)
}

// resettable returns the pod's init and main containers.
func resettable(pod *v1.Pod) []*v1.Container {
	var out []*v1.Container
	for i := range pod.Spec.InitContainers {
		out = append(out, &pod.Spec.InitContainers[i])
	}
	for i := range pod.Spec.Containers {
		out = append(out, &pod.Spec.Containers[i])
	}
	return out
}
