package adoption

import (
	"fmt"
	"slices"
	"strings"

	v1 "k8s.io/api/core/v1"

	"github.com/podstream/podstream/internal/execsvc/pod/criconfig"
	"github.com/podstream/podstream/internal/execsvc/pod/podmeta"
)

// Lacks returns the paths of the pod's fields that podexecd doesn't support, whatever the container runtime does; docs/kubelet.md
// lists the features. Volumes that the kubelet has staged are among them.
func Lacks(pod *v1.Pod) []string {
	var out []string
	for _, c := range podmeta.Containers(pod) {
		var devices []string
		for name := range c.Resources.Limits {
			if strings.Contains(string(name), "/") && !strings.Contains(string(name), v1.ResourceDefaultNamespacePrefix) {
				devices = append(devices, fmt.Sprintf("container %s: resources.limits[%s]", c.Name, name))
			}
		}
		slices.Sort(devices)
		out = append(out, devices...)
	}
	return slices.Concat(waits(pod), staged(pod), out)
}

// waits returns those of Lacks for which podexecd starts and stops nothing of the pod. Volumes of ephemeral containers alone aren't
// among them.
func waits(pod *v1.Pod) []string {
	var out []string
	lasting := slices.Concat(pod.Spec.InitContainers, pod.Spec.Containers)
	for i := range pod.Spec.Volumes {
		v := &pod.Spec.Volumes[i]
		if !slices.ContainsFunc(lasting, func(c v1.Container) bool { return criconfig.UsesVolume(&c, v.Name) }) {
			continue
		}
		for _, source := range criconfig.UnsupportedSources(&v.VolumeSource) {
			out = append(out, fmt.Sprintf("spec.volumes[%d].%s", i, source))
		}
	}
	if len(pod.Spec.ResourceClaims) > 0 {
		out = append(out, "spec.resourceClaims")
	}
	return out
}

// staged returns the volumes that the kubelet may have staged. podexecd has no record of them.
func staged(pod *v1.Pod) []string {
	var out []string
	for i := range pod.Spec.Volumes {
		if source := &pod.Spec.Volumes[i].VolumeSource; criconfig.IsPersistent(source) {
			out = append(out, fmt.Sprintf("spec.volumes[%d].%s", i, criconfig.VolumeSourceName(source)))
		}
	}
	return out
}
