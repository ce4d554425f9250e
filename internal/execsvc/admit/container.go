package admit

import (
	"fmt"

	v1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"
)

// container checks a container of whatever kind, whose path is given.
func (c *checker) container(path string, ct *v1.Container) {
	c.refuse(path+".envFrom", len(ct.EnvFrom) > 0)
	for i := range ct.Env {
		c.refuse(fmt.Sprintf("%s.env[%d].valueFrom", path, i), ct.Env[i].ValueFrom != nil)
	}
	c.refuse(path+".volumeDevices", len(ct.VolumeDevices) > 0)
	for i := range ct.VolumeMounts {
		c.volumeMount(fmt.Sprintf("%s.volumeMounts[%d]", path, i), &ct.VolumeMounts[i])
	}
	c.resources(path+".resources", &ct.Resources)
	c.security(path+".securityContext", ct.SecurityContext)
}

func (c *checker) volumeMount(path string, m *v1.VolumeMount) {
	c.refuse(path+".bindMountOptions", len(m.BindMountOptions) > 0)
	c.refuse(path+".recursiveReadOnly", ptr.Deref(m.RecursiveReadOnly, v1.RecursiveReadOnlyDisabled) == v1.RecursiveReadOnlyEnabled)
	c.refuse(path+".subPath", m.SubPath != "")
	c.refuse(path+".subPathExpr", m.SubPathExpr != "")
}

func (c *checker) resources(path string, r *v1.ResourceRequirements) {
	c.refuse(path+".claims", len(r.Claims) > 0)
	c.resourceList(path+".limits", r.Limits)
	c.resourceList(path+".requests", r.Requests)
}

func (c *checker) resourceList(path string, list v1.ResourceList) {
	for _, name := range sortedKeys(list) {
		at := fmt.Sprintf("%s[%s]", path, name)
		switch name {
		case v1.ResourceCPU, v1.ResourceMemory:
		case v1.ResourceEphemeralStorage:
			c.ignore(at, true)
		default:
			// Huge pages, and devices that a plugin would have to give.
			c.refuse(at, true)
		}
	}
}

func (c *checker) security(path string, sc *v1.SecurityContext) {
	if sc == nil {
		return
	}
	c.refuse(path+".appArmorProfile.localhostProfile", localAppArmor(sc.AppArmorProfile))
	c.refuse(path+".seLinuxOptions", sc.SELinuxOptions != nil)
	c.refuse(path+".seccompProfile.localhostProfile", localSeccomp(sc.SeccompProfile))
	c.refuse(path+".windowsOptions", sc.WindowsOptions != nil)
}
