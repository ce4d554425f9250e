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
// lists the features. Running containers go on without them. Once one has ended, it may wait.
func Lacks(pod *v1.Pod) []string {
	var out []string
	for i := range pod.Spec.Volumes {
		v := &pod.Spec.Volumes[i]
		used := slices.ContainsFunc(podmeta.Containers(pod), func(c *v1.Container) bool { return criconfig.UsesVolume(c, v.Name) })
		for _, source := range criconfig.UnsupportedSources(&v.VolumeSource) {
			if used {
				out = append(out, fmt.Sprintf("spec.volumes[%d].%s", i, source))
			}
		}
	}
	if len(pod.Spec.ResourceClaims) > 0 {
		out = append(out, "spec.resourceClaims")
	}
	for _, c := range podmeta.Containers(pod) {
		if len(c.VolumeDevices) > 0 {
			out = append(out, fmt.Sprintf("container %s: volumeDevices", c.Name))
		}
		var devices []string
		for name := range c.Resources.Limits {
			if strings.Contains(string(name), "/") && !strings.Contains(string(name), v1.ResourceDefaultNamespacePrefix) {
				devices = append(devices, fmt.Sprintf("container %s: resources.limits[%s]", c.Name, name))
			}
		}
		slices.Sort(devices)
		out = append(out, devices...)
	}
	return out
}
