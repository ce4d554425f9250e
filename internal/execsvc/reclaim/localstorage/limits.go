package localstorage

import (
	"fmt"
	"iter"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	podresource "k8s.io/component-helpers/resource"
)

// The kinds of limits, by the signals under which the kubelet counts evictions.
const (
	emptyDirSignal  = "emptydirfs.limit"
	podSignal       = "ephemeralpodfs.limit"
	containerSignal = "ephemeralcontainerfs.limit"
)

// exceeded returns the signal of the first limit that the pod exceeds, with the kubelet's message; both are empty if
// it exceeds none. A pod with more files than can be counted exceeds each of its limits. While a pod is being
// counted, only the limit of the whole pod is compared with the unfinished count.
func exceeded(pod *v1.Pod, used Usage) (signal, message string) {
	for volume := range emptyDirs(pod) {
		limit := volume.EmptyDir.SizeLimit
		if isSet(limit) && used.EmptyDirs[volume.Name].Bytes > limit.Value() {
			return emptyDirSignal, fmt.Sprintf("Usage of EmptyDir volume %q exceeds the limit %q. ", volume.Name, limit)
		}
	}
	if limit := podLimit(pod); isSet(limit) && used.minimumBytes() > limit.Value() {
		return podSignal, fmt.Sprintf("Pod ephemeral local storage usage exceeds the total limit of containers %s. ", limit)
	}
	for c := range containers(pod) {
		if limit := c.Resources.Limits.StorageEphemeral(); isSet(limit) && used.Container(c.Name).Bytes > limit.Value() {
			return containerSignal, fmt.Sprintf("Container %s exceeded its local ephemeral storage limit %q. ", c.Name, limit)
		}
	}
	if !used.Uncountable {
		return "", ""
	}
	if isSet(podLimit(pod)) {
		return podSignal, fmt.Sprintf("Pod's local ephemeral storage cannot be measured, and has a limit: %v. ", used.Usage.Err)
	}
	if limitsOf(pod).emptyDirs {
		return emptyDirSignal, fmt.Sprintf("Usage of EmptyDir volumes cannot be measured, and has a limit: %v. ", used.Usage.Err)
	}
	return "", ""
}

// limits are the kinds of limits that a pod has.
type limits struct {
	// emptyDirs is set if an emptyDir on disk has a limit, pod if a container has one: the pod's limit is their sum.
	emptyDirs, pod bool
}

func limitsOf(pod *v1.Pod) limits {
	l := limits{pod: isSet(podLimit(pod))}
	for volume := range emptyDirs(pod) {
		l.emptyDirs = l.emptyDirs || isSet(volume.EmptyDir.SizeLimit)
	}
	return l
}

// isSet reports whether there is a limit: nil and zero are none.
func isSet(limit *resource.Quantity) bool { return limit != nil && limit.Sign() > 0 }

// podLimit returns the sum of the containers' limits; zero if there are none.
func podLimit(pod *v1.Pod) *resource.Quantity {
	all := podresource.PodLimits(pod, podresource.PodResourcesOptions{})
	return all.StorageEphemeral()
}

// emptyDirs returns the pod's emptyDirs on disk.
func emptyDirs(pod *v1.Pod) iter.Seq[*v1.Volume] {
	return func(yield func(*v1.Volume) bool) {
		for i := range pod.Spec.Volumes {
			v := &pod.Spec.Volumes[i]
			if v.EmptyDir != nil && v.EmptyDir.Medium == v1.StorageMediumDefault && !yield(v) {
				return
			}
		}
	}
}

// containers returns the pod's containers that may have limits: all but ephemeral ones.
func containers(pod *v1.Pod) iter.Seq[*v1.Container] {
	return func(yield func(*v1.Container) bool) {
		for _, list := range [][]v1.Container{pod.Spec.InitContainers, pod.Spec.Containers} {
			for i := range list {
				if !yield(&list[i]) {
					return
				}
			}
		}
	}
}
