package criconfig

import (
	"slices"

	v1 "k8s.io/api/core/v1"
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
