package admit

import (
	"fmt"

	v1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"
)

// container checks a container of whatever kind, whose path is given.
func (c *checker) container(path string, ct *v1.Container) {
	c.unsupported(path+".volumeDevices", len(ct.VolumeDevices) > 0)
	for i := range ct.VolumeMounts {
		c.volumeMount(fmt.Sprintf("%s.volumeMounts[%d]", path, i), &ct.VolumeMounts[i])
	}
	c.resources(path+".resources", &ct.Resources)
	c.unsupported(path+".securityContext.windowsOptions", ct.SecurityContext != nil && ct.SecurityContext.WindowsOptions != nil)
}

func (c *checker) volumeMount(path string, m *v1.VolumeMount) {
	c.unsupported(path+".bindMountOptions", len(m.BindMountOptions) > 0)
	mode := ptr.Deref(m.RecursiveReadOnly, v1.RecursiveReadOnlyDisabled)
	if mode == v1.RecursiveReadOnlyEnabled && !c.handler.RecursiveReadOnlyMounts {
		c.refuseFor(UnsupportedFeature, path+".recursiveReadOnly",
			fmt.Sprintf("volume %q requested recursive read-only mode, but it is not supported by the runtime", m.Name))
	}
}

func (c *checker) resources(path string, r *v1.ResourceRequirements) {
	c.unsupported(path+".claims", len(r.Claims) > 0)
	c.uncounted(path+".limits", r.Limits)
	c.uncounted(path+".requests", r.Requests)
}

// uncounted names what isn't the node's to count, such as a device that no plugin offers: it is taken for the cluster's.
func (c *checker) uncounted(path string, list v1.ResourceList) {
	for _, name := range sortedKeys(list) {
		c.ignore(fmt.Sprintf("%s[%s]", path, name), !c.counted(name))
	}
}
