package storage

import (
	"fmt"
	"iter"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	podresource "k8s.io/component-helpers/resource"
)

// The kinds of limits, as the kubelet counts evictions for them.
const (
	ofEmptyDir  = "emptydirfs.limit"
	ofPod       = "ephemeralpodfs.limit"
	ofContainer = "ephemeralcontainerfs.limit"
)

// exceeded is the kind of the first limit that the pod exceeds, with the kubelet's message; both are empty if it exceeds none.
func exceeded(pod *v1.Pod, used Usage) (signal, message string) {
	for volume := range emptyDirs(pod) {
		limit := volume.EmptyDir.SizeLimit
		if bounds(limit) && used.Volumes[volume.Name] > limit.Value() {
			return ofEmptyDir, fmt.Sprintf("Usage of EmptyDir volume %q exceeds the limit %q. ", volume.Name, limit)
		}
	}
	if limit := podLimit(pod); bounds(limit) && used.Total() > limit.Value() {
		return ofPod, fmt.Sprintf("Pod ephemeral local storage usage exceeds the total limit of containers %s. ", limit)
	}
	for c := range containers(pod) {
		if limit := c.Resources.Limits.StorageEphemeral(); bounds(limit) && used.Container(c.Name) > limit.Value() {
			return ofContainer, fmt.Sprintf("Container %s exceeded its local ephemeral storage limit %q. ", c.Name, limit)
		}
	}
	return "", ""
}

// limits are which of its limits a pod has.
type limits struct {
	// volumes is set if an emptyDir on disk has one, whole if a container has, and with it the pod.
	volumes, whole bool
}

func limitsOf(pod *v1.Pod) limits {
	l := limits{whole: bounds(podLimit(pod))}
	for volume := range emptyDirs(pod) {
		l.volumes = l.volumes || bounds(volume.EmptyDir.SizeLimit)
	}
	return l
}

// bounds tells whether the limit is one: nil and zero are none.
func bounds(limit *resource.Quantity) bool { return limit != nil && limit.Sign() > 0 }

// podLimit is what the pod's containers may use together; zero if none of them has a limit.
func podLimit(pod *v1.Pod) *resource.Quantity {
	all := podresource.PodLimits(pod, podresource.PodResourcesOptions{})
	return all.StorageEphemeral()
}

// emptyDirs are the pod's emptyDirs on disk.
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

// containers are the pod's containers that may have limits: all but ephemeral ones.
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
