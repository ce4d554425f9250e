package eviction

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/types"
	podresource "k8s.io/component-helpers/resource"
	"k8s.io/utils/ptr"
)

// usage is the known usage of one resource by a pod and its containers.
type usage struct {
	pod        int64
	containers map[string]int64
}

// rank sorts the pods in the order of eviction: first those that exceed their request, then by priority, then by the
// excess. Processes have no requests: pods are ranked by priority first. Unlike in the kubelet, where it comes first,
// a pod whose usage is unknown is left out: it may not even have started.
func rank(pods []*v1.Pod, name v1.ResourceName, used map[types.UID]usage) []*v1.Pod {
	type candidate struct {
		pod  *v1.Pod
		over int64
	}
	var all []candidate
	for _, pod := range pods {
		if u, known := used[pod.UID]; known {
			all = append(all, candidate{pod, u.pod - request(pod, name)})
		}
	}
	slices.SortFunc(all, func(a, b candidate) int {
		exceeds := trueFirst(a.over > 0, b.over > 0)
		priority := cmp.Compare(ptr.Deref(a.pod.Spec.Priority, 0), ptr.Deref(b.pod.Spec.Priority, 0))
		more := cmp.Or(cmp.Compare(b.over, a.over), cmp.Compare(a.pod.UID, b.pod.UID))
		if name == pids {
			return cmp.Or(priority, more)
		}
		return cmp.Or(exceeds, priority, more)
	})
	out := make([]*v1.Pod, 0, len(all))
	for _, c := range all {
		out = append(out, c.pod)
	}
	return out
}

// trueFirst compares two booleans: true comes first.
func trueFirst(a, b bool) int {
	switch {
	case a == b:
		return 0
	case a:
		return -1
	}
	return 1
}

// request returns the pod's request of the resource.
func request(pod *v1.Pod, name v1.ResourceName) int64 {
	if name != v1.ResourceMemory && name != v1.ResourceEphemeralStorage {
		return 0
	}
	all := podresource.PodRequests(pod, podresource.PodResourcesOptions{})
	q := all[name]
	return q.Value()
}

// message returns the kubelet's eviction message.
func message(pod *v1.Pod, name v1.ResourceName, least, available resource.Quantity, used usage) string {
	var b strings.Builder
	fmt.Fprintf(&b, "The node was low on resource: %s. Threshold quantity: %s, available: %s. ", name, &least, &available)
	if asked, has := podRequest(pod, name); has && name == v1.ResourceMemory {
		fmt.Fprintf(&b, "Pod %s was using %s, request is %s, has larger consumption of %s. ", pod.Name, inBinary(used.pod), &asked, name)
	}
	for _, c := range slices.Concat(pod.Spec.Containers, pod.Spec.InitContainers) {
		asked := c.Resources.Requests[name]
		if uses, known := used.containers[c.Name]; known && uses > asked.Value() {
			fmt.Fprintf(&b, "Container %s was using %s, request is %s, has larger consumption of %s. ", c.Name, inBinary(uses), &asked, name)
		}
	}
	return b.String()
}

// podRequest returns the pod-level request, if there is one.
func podRequest(pod *v1.Pod, name v1.ResourceName) (resource.Quantity, bool) {
	if pod.Spec.Resources == nil {
		return resource.Quantity{}, false
	}
	q, has := pod.Spec.Resources.Requests[name]
	return q, has
}

func inBinary(n int64) string { return resource.NewQuantity(n, resource.BinarySI).String() }
