package cridiff

import (
	"fmt"
	"maps"
	"slices"
)

// fault is what an agent did with a pod, but for one planted difference.
type fault struct {
	what  string
	steps Steps
}

// faults returns a fault of podstream's steps for each step that can be missing, for each field that can be missing or
// have another value, for a field that is too much, and for each two steps that can change places. What the kubelet
// doesn't have either isn't missing, and its order is none that is wrong.
func faults(steps, kubelet Steps) []fault {
	var all []fault
	plant := func(what string, change func(Steps)) {
		changed := Steps{}
		for step, fields := range steps {
			changed[step] = maps.Clone(fields)
		}
		change(changed)
		all = append(all, fault{what, changed})
	}
	for _, step := range slices.Sorted(maps.Keys(steps)) {
		plant("no "+step, func(s Steps) { delete(s, step) })
		plant("a field too much in "+step, func(s Steps) { s[step]["planted"] = "x" })
		for _, path := range slices.Sorted(maps.Keys(steps[step])) {
			if value(kubelet[step], path) != absent {
				plant(fmt.Sprintf("no %s in %s", path, step), func(s Steps) { delete(s[step], path) })
			}
			plant(fmt.Sprintf("another %s in %s", path, step), func(s Steps) { s[step][path] += "x" })
		}
	}
	order := steps[orderStep]
	for i := range len(order) - 1 {
		a, b := fmt.Sprintf("[%d]", i), fmt.Sprintf("[%d]", i+1)
		swapped := maps.Clone(order)
		swapped[a], swapped[b] = order[b], order[a]
		if maps.Equal(swapped, kubelet[orderStep]) {
			continue
		}
		plant(fmt.Sprintf("%s before %s", order[b], order[a]), func(s Steps) { s[orderStep] = swapped })
	}
	return all
}
