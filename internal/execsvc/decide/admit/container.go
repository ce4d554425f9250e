package admit

import (
	"fmt"
	"slices"

	v1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"
)

// container checks a container of any kind at that path.
func (c *checker) container(path string, ct *v1.Container) {
	c.containerAppArmor(path, ct)
	lack := func(field string, set bool) {
		if set {
			c.containerLack(ct.Name, path+field, notYet)
		}
	}
	for i := range ct.VolumeDevices {
		c.volumeDevice(fmt.Sprintf("%s.volumeDevices[%d]", path, i), ct, &ct.VolumeDevices[i])
	}
	for i := range ct.VolumeMounts {
		c.volumeMount(fmt.Sprintf("%s.volumeMounts[%d]", path, i), ct, &ct.VolumeMounts[i])
	}
	lack(".resources.claims", len(ct.Resources.Claims) > 0)
	c.uncounted(path+".resources.limits", ct.Resources.Limits)
	c.uncounted(path+".resources.requests", ct.Resources.Requests)
	c.ignore(path+".securityContext.windowsOptions", ct.SecurityContext != nil && ct.SecurityContext.WindowsOptions != nil)
}

// volumeDevice checks that something can provide the device: a claim, also that of a generic ephemeral volume. A volume of another
// type has no device.
func (c *checker) volumeDevice(path string, ct *v1.Container, d *v1.VolumeDevice) {
	provided := slices.ContainsFunc(c.pod.Spec.Volumes, func(v v1.Volume) bool {
		return v.Name == d.Name && (v.PersistentVolumeClaim != nil || v.Ephemeral != nil)
	})
	if !provided {
		c.containerLack(ct.Name, path, fmt.Sprintf("volume %q has no block device: it must be a persistentVolumeClaim or ephemeral", d.Name))
	}
}

func (c *checker) volumeMount(path string, ct *v1.Container, m *v1.VolumeMount) {
	if len(m.BindMountOptions) > 0 {
		c.containerLack(ct.Name, path+".bindMountOptions", notYet)
	}
	mode := ptr.Deref(m.RecursiveReadOnly, v1.RecursiveReadOnlyDisabled)
	if mode == v1.RecursiveReadOnlyEnabled && !c.handler.RecursiveReadOnlyMounts {
		c.containerLack(ct.Name, path+".recursiveReadOnly",
			fmt.Sprintf("volume %q requested recursive read-only mode, but it is not supported by the runtime", m.Name))
	}
}

// uncounted records resources that the node doesn't count, such as a device without a plugin: they count as resources
// of the cluster.
func (c *checker) uncounted(path string, list v1.ResourceList) {
	for _, name := range sortedKeys(list) {
		c.ignore(fmt.Sprintf("%s[%s]", path, name), !c.counted(name))
	}
}
