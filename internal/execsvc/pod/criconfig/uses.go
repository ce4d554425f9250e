package criconfig

import (
	"slices"

	v1 "k8s.io/api/core/v1"

	"github.com/podstream/podstream/internal/execsvc/pod/podmeta"
)

// UsesVolume reports whether the container mounts the volume of that name, has it as a device, or reads its environment
// from it.
func UsesVolume(c *v1.Container, name string) bool {
	return slices.ContainsFunc(c.VolumeMounts, func(m v1.VolumeMount) bool { return m.Name == name }) ||
		slices.ContainsFunc(c.VolumeDevices, func(d v1.VolumeDevice) bool { return d.Name == name }) ||
		slices.ContainsFunc(c.Env, func(e v1.EnvVar) bool {
			return e.ValueFrom != nil && e.ValueFrom.FileKeyRef != nil && e.ValueFrom.FileKeyRef.VolumeName == name
		})
}

// VolumeModes reports whether containers of the pod, of any kind, mount the volume of that name, and whether they have it as
// a device.
func VolumeModes(pod *v1.Pod, name string) (mounted, device bool) {
	for _, c := range podmeta.Containers(pod) {
		mounted = mounted || slices.ContainsFunc(c.VolumeMounts, func(m v1.VolumeMount) bool { return m.Name == name })
		device = device || slices.ContainsFunc(c.VolumeDevices, func(d v1.VolumeDevice) bool { return d.Name == name })
	}
	return mounted, device
}
