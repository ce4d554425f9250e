package admit

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	podresource "k8s.io/component-helpers/resource"
)

// shortage is a resource of which the node has too little left. Cpu is in thousandths, the others in units or bytes.
type shortage struct {
	name                      v1.ResourceName
	requested, used, capacity int64
}

func (s shortage) String() string {
	return fmt.Sprintf("Node didn't have enough resource: %s, requested: %d, used: %d, capacity: %d",
		s.name, s.requested, s.used, s.capacity)
}

// transient reports whether the pod would fit if no other pod were on the node.
func (s shortage) transient() bool { return s.requested <= s.capacity }

// missing is the amount that other pods would have to release. Zero or less: the request fits.
func (s shortage) missing() int64 {
	free := s.capacity - s.used
	if free >= 0 {
		return s.requested - free
	}
	return sum(s.requested, -free)
}

// shortages are in the kubelet's order: pods, cpu, memory, ephemeral storage, and the others by name.
func shortages(pod *v1.Pod, allocatable v1.ResourceList, others []*v1.Pod) []shortage {
	used := map[v1.ResourceName]int64{}
	for _, o := range others {
		for name, amount := range requests(o) {
			used[name] = sum(used[name], amount)
		}
	}
	var out []shortage
	for name, requested := range requests(pod) {
		capacity, known := allocatable[name]
		if !known && !native(name) {
			continue
		}
		s := shortage{name: name, requested: requested, used: used[name], capacity: amountOf(name, capacity)}
		if requested > 0 && s.missing() > 0 {
			out = append(out, s)
		}
	}
	slices.SortFunc(out, func(a, b shortage) int {
		return cmp.Or(cmp.Compare(rank(a.name), rank(b.name)), cmp.Compare(a.name, b.name))
	})
	return out
}

// ordinary are the resources that every node has, in the order in which they are reported.
var ordinary = []v1.ResourceName{v1.ResourcePods, v1.ResourceCPU, v1.ResourceMemory, v1.ResourceEphemeralStorage}

func rank(name v1.ResourceName) int {
	if i := slices.Index(ordinary, name); i >= 0 {
		return i
	}
	return len(ordinary)
}

// counted reports whether the node counts a resource. Extended resources that it doesn't advertise belong to the
// cluster, or to a missing device plugin: the kubelet's removeMissingExtendedResources drops them, and admits a pod
// that requests them.
func (c *checker) counted(name v1.ResourceName) bool {
	_, known := c.node.Allocatable[name]
	return known || native(name) || slices.Contains(ordinary, name)
}

// native reports whether a resource is Kubernetes' own, such as huge pages: a node that doesn't name it has none of
// it.
func native(name v1.ResourceName) bool {
	return strings.HasPrefix(string(name), v1.ResourceHugePagesPrefix) || strings.Contains(string(name), v1.ResourceDefaultNamespacePrefix)
}

// requests returns the pod's requests, and one of "pods".
func requests(pod *v1.Pod) map[v1.ResourceName]int64 {
	out := map[v1.ResourceName]int64{v1.ResourcePods: 1}
	for name, q := range podresource.PodRequests(pod, podresource.PodResourcesOptions{}) {
		if name != v1.ResourcePods {
			out[name] = amountOf(name, q)
		}
	}
	return out
}

// amountOf returns the amount as an integer: at least 0, and at most the largest one. A sum over containers, or many
// CPUs in thousandths, can exceed it, and Quantity.Value would wrap around: the pod would count as one that needs
// nothing, or that gives the node more.
func amountOf(name v1.ResourceName, q resource.Quantity) int64 {
	scale := resource.Scale(0)
	if name == v1.ResourceCPU {
		scale = resource.Milli
	}
	switch {
	case q.Sign() <= 0:
		return 0
	case q.Cmp(*resource.NewScaledQuantity(math.MaxInt64, scale)) >= 0:
		return math.MaxInt64
	}
	return q.ScaledValue(scale)
}

// sum adds amounts, neither of which is negative. A sum that is too large is the largest integer.
func sum(a, b int64) int64 {
	if a > math.MaxInt64-b {
		return math.MaxInt64
	}
	return a + b
}
