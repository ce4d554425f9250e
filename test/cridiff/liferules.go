package cridiff

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"

	v1 "k8s.io/api/core/v1"
)

// lifeRules are the differences of what an agent does besides starting and stopping containers. The golden pods needn't have
// them.
var lifeRules = []Rule{
	{
		Name: "hookOutlastsGrace", ByChance: true,
		Reason: "When the grace period ends, both stop the container with the least time, whatever its preStop hook does. podexecd ends the " +
			"hook then. With the kubelet it ends with the container.",
		Step: regexp.MustCompile(`^ExecSync `), Path: regexp.MustCompile(`^` + regexp.QuoteMeta(errorPath) + `$`),
		When: func(d *Difference) bool {
			c := d.container()
			return d.Kubelet == absent && d.Podstream == "context canceled" && c != nil && d.Step == preStop(c) &&
				value(d.of.podstream["StopContainer "+c.Name], "timeout") == "2"
		},
	},
	{
		Name: "volumesOfRefusedPod", ByChance: true,
		Reason: "In its first seconds the kubelet makes the volumes of a pod that it doesn't admit. podexecd makes none.",
		Step:   regexp.MustCompile(`^` + filesStep + `$`), Path: regexp.MustCompile(`^$`),
		When: func(d *Difference) bool {
			reason := value(d.of.podstream[outcomeStep], "reason")
			return d.Kubelet == made && d.Podstream == absent && reason != absent && reason != "" && reason == value(d.of.kubelet[outcomeStep], "reason")
		},
	},
	{
		Name: "hostsFileOfEndedPod", ByChance: true,
		Reason: "The kubelet keeps the hosts file of a pod that has ended until the pod is removed. podexecd removes it with the volumes.",
		Step:   regexp.MustCompile(`^` + filesStep + `$`), Path: regexp.MustCompile(`^$`),
		When: func(d *Difference) bool {
			_, hosts := d.of.kubelet[filesStep][hostsFile]
			return d.Kubelet == made && d.Podstream == absent && hosts && len(d.of.kubelet[filesStep]) == 1 && d.hasEnded()
		},
	},
	{
		Name: "neverPullsBeforeOther", ByChance: true,
		Reason: "A container that doesn't pull its image has it once another container of the pod has pulled it. The kubelet has started that " +
			"one by then. podexecd pulls meanwhile, and then starts both in the pod's order.",
		Step: regexp.MustCompile(`^` + orderStep + `$`), Path: regexp.MustCompile(`^\[\d+\]$`),
		When: func(d *Difference) bool {
			return neverPulls(d.Pod) && maps.Equal(inOrderOfPod(d.Pod, d.of.kubelet[orderStep]), d.of.podstream[orderStep])
		},
	},
}

// neverPulls reports whether a container of the pod has an image that only another one pulls.
func neverPulls(pod *v1.Pod) bool {
	return slices.ContainsFunc(pod.Spec.Containers, func(c v1.Container) bool {
		return c.ImagePullPolicy == v1.PullNever && slices.ContainsFunc(pod.Spec.Containers, func(other v1.Container) bool {
			return other.Image == c.Image && other.ImagePullPolicy != v1.PullNever
		})
	})
}

// inOrderOfPod returns the order in which the main containers start in the pod's order.
func inOrderOfPod(pod *v1.Pod, order Fields) Fields {
	index := func(step string) int {
		if strings.HasPrefix(step, "CreateContainer ") || strings.HasPrefix(step, "StartContainer ") {
			return slices.IndexFunc(pod.Spec.Containers, func(c v1.Container) bool { return c.Name == containerOf(step) })
		}
		return -1
	}
	var at, steps []string
	for i := range len(order) {
		path := fmt.Sprintf("[%d]", i)
		if index(order[path]) >= 0 {
			at, steps = append(at, path), append(steps, order[path])
		}
	}
	slices.SortStableFunc(steps, func(a, b string) int { return index(a) - index(b) })
	order = maps.Clone(order)
	for i, path := range at {
		order[path] = steps[i]
	}
	return order
}

// hasEnded reports whether both agents say that the pod has failed, as each of its containers has ended.
func (d *Difference) hasEnded() bool {
	for _, outcome := range []Fields{d.of.kubelet[outcomeStep], d.of.podstream[outcomeStep]} {
		if value(outcome, "reason") != "" {
			return false
		}
		for _, c := range d.Pod.Spec.Containers {
			if value(outcome, "ended."+c.Name+".code") == absent {
				return false
			}
		}
	}
	return true
}
