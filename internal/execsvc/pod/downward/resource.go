package downward

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
)

// Resource returns a container's limit or request: limits.cpu, limits.memory, limits.ephemeral-storage,
// limits.hugepages-SIZE, and the same of requests. The unit is the selector's divisor (zero: CPUs or bytes), and the
// result is rounded up.
//
// The selector's containerName names the container; container is used if it is empty. A limit that isn't set, or is
// zero, is that of the pod if it has one, else, except for huge pages, the node's allocatable resource. A request that
// isn't set is zero: defaulting has set it to the limit if there is one.
func Resource(pod *v1.Pod, container string, sel *v1.ResourceFieldSelector, f Facts) (string, error) {
	container = cmp.Or(sel.ContainerName, container)
	resources, ok := resourcesOf(pod, container)
	if !ok {
		return "", fmt.Errorf("container %s not found", container)
	}
	kind, text, _ := strings.Cut(sel.Resource, ".")
	name := v1.ResourceName(text)
	var amount resource.Quantity
	switch {
	case !supported(name):
		return "", fmt.Errorf("unsupported container resource: %s", sel.Resource)
	case kind == "limits":
		amount = limit(pod, resources, name, f.Allocatable)
	case kind == "requests":
		amount = resources.Requests[name]
	default:
		return "", fmt.Errorf("unsupported container resource: %s", sel.Resource)
	}
	return counted(name, amount, sel.Divisor)
}

// resourcesOf searches containers of all kinds: sidecars are init containers, and an ephemeral container may refer to
// its own.
func resourcesOf(pod *v1.Pod, name string) (v1.ResourceRequirements, bool) {
	for _, containers := range [][]v1.Container{pod.Spec.Containers, pod.Spec.InitContainers} {
		if at := slices.IndexFunc(containers, func(c v1.Container) bool { return c.Name == name }); at >= 0 {
			return containers[at].Resources, true
		}
	}
	for i := range pod.Spec.EphemeralContainers {
		if c := &pod.Spec.EphemeralContainers[i]; c.Name == name {
			return c.Resources, true
		}
	}
	return v1.ResourceRequirements{}, false
}

func supported(name v1.ResourceName) bool {
	return name == v1.ResourceCPU || name == v1.ResourceMemory || name == v1.ResourceEphemeralStorage || isHugePages(name)
}

func isHugePages(name v1.ResourceName) bool {
	return strings.HasPrefix(string(name), v1.ResourceHugePagesPrefix)
}

func limit(pod *v1.Pod, resources v1.ResourceRequirements, name v1.ResourceName, allocatable v1.ResourceList) resource.Quantity {
	amount := resources.Limits[name]
	if !amount.IsZero() || isHugePages(name) {
		return amount
	}
	// Pod-level limits are of cpu, memory and huge pages only.
	if pod.Spec.Resources != nil && name != v1.ResourceEphemeralStorage {
		if whole := pod.Spec.Resources.Limits[name]; !whole.IsZero() {
			return whole
		}
	}
	return allocatable[name]
}

// counted returns the amount in units of the divisor. CPUs are compared in thousandths, the others in bytes.
func counted(name v1.ResourceName, amount, divisor resource.Quantity) (string, error) {
	switch divisor.Sign() {
	case -1:
		return "", fmt.Errorf("the divisor %s is negative", divisor.String())
	case 0:
		divisor = *resource.NewQuantity(1, resource.DecimalSI)
	}
	value := (*resource.Quantity).Value
	if name == v1.ResourceCPU {
		value = (*resource.Quantity).MilliValue
	}
	whole, unit := value(&amount), value(&divisor)
	count := whole / unit
	if whole%unit > 0 {
		count++
	}
	return strconv.FormatInt(count, 10), nil
}
