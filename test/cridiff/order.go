package cridiff

import (
	"fmt"
	"slices"
	"strings"

	v1 "k8s.io/api/core/v1"
)

// addOrder adds the order of each pod's steps.
func (t *tracer) addOrder(batches [][]*v1.Pod) {
	for _, pod := range slices.Concat(batches...) {
		steps := ordered(pod, t.order[string(pod.UID)])
		if len(steps) == 0 {
			continue
		}
		fields := Fields{}
		for i, step := range steps {
			fields[fmt.Sprintf("[%d]", i)] = step
		}
		t.trace[string(pod.UID)][orderStep] = fields
	}
}

// ordered returns the steps in their order, without probes and the rotation of logs, which have times of their own.
// Containers are stopped at the same time: a preStop hook that runs before its container stops is placed directly before
// that. Main containers are stopped together, and containers removed in no order: such steps are sorted by container, those
// of a container staying in their order.
func ordered(pod *v1.Pod, steps []string) []string {
	free := probesOf(pod)
	steps = slices.DeleteFunc(slices.Clone(steps), func(step string) bool {
		return free[step] || strings.HasPrefix(step, "ReopenContainerLog ")
	})
	stops := map[string]bool{}
	for _, c := range pod.Spec.Containers {
		stops[preStop(&c)], stops["StopContainer "+c.Name] = true, true
	}
	for _, c := range slices.Concat(pod.Spec.InitContainers, pod.Spec.Containers) {
		hook, stop := slices.Index(steps, preStop(&c)), slices.Index(steps, "StopContainer "+c.Name)
		if hook >= 0 && hook < stop {
			steps = slices.Insert(slices.Delete(steps, hook, hook+1), stop-1, preStop(&c))
		}
	}
	for _, together := range []func(string) bool{
		func(step string) bool { return stops[step] },
		func(step string) bool { return strings.HasPrefix(step, "RemoveContainer ") },
	} {
		for from := 0; from < len(steps); from++ {
			to := from
			for to < len(steps) && together(steps[to]) {
				to++
			}
			slices.SortStableFunc(steps[from:to], func(a, b string) int { return strings.Compare(containerOf(a), containerOf(b)) })
			from = max(from, to)
		}
	}
	return steps
}

// preStop returns the step of the container's preStop hook. Empty: it has none that is a command.
func preStop(c *v1.Container) string {
	if c.Lifecycle == nil || c.Lifecycle.PreStop == nil || c.Lifecycle.PreStop.Exec == nil {
		return ""
	}
	return "ExecSync " + execOf(c.Name, c.Lifecycle.PreStop.Exec.Command)
}

// containerOf returns the name of the step's container.
func containerOf(step string) string {
	_, rest, _ := strings.Cut(step, " ")
	name, _, _ := strings.Cut(rest, " ")
	return name
}

// probesOf returns the steps of the pod's probes.
func probesOf(pod *v1.Pod) map[string]bool {
	steps := map[string]bool{}
	for _, c := range slices.Concat(pod.Spec.InitContainers, pod.Spec.Containers) {
		for _, p := range []*v1.Probe{c.LivenessProbe, c.ReadinessProbe, c.StartupProbe} {
			if p != nil && p.Exec != nil {
				steps["ExecSync "+execOf(c.Name, p.Exec.Command)] = true
			}
		}
	}
	return steps
}
