package status

import (
	v1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"
)

func volumeMounts(in *Input, c *v1.Container) []v1.VolumeMountStatus {
	var mounts []v1.VolumeMountStatus
	for i := range c.VolumeMounts {
		m := &c.VolumeMounts[i]
		status := v1.VolumeMountStatus{Name: m.Name, MountPath: m.MountPath, ReadOnly: m.ReadOnly}
		if m.ReadOnly {
			mode := v1.RecursiveReadOnlyDisabled
			if wantsRecursion(m) && in.RecursiveReadOnly != nil && in.RecursiveReadOnly() {
				mode = v1.RecursiveReadOnlyEnabled
			}
			status.RecursiveReadOnly = &mode
		}
		mounts = append(mounts, status)
	}
	return mounts
}

// wantsRecursion reports whether a read-only mount makes the mounts beneath it read-only too, if the runtime supports
// it.
func wantsRecursion(m *v1.VolumeMount) bool {
	mode := ptr.Deref(m.RecursiveReadOnly, v1.RecursiveReadOnlyDisabled)
	return mode != v1.RecursiveReadOnlyDisabled && ptr.Deref(m.MountPropagation, v1.MountPropagationNone) == v1.MountPropagationNone
}
