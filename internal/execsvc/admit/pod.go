package admit

import (
	"fmt"

	v1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"
)

func (c *checker) podSpec() {
	spec := &c.pod.Spec
	if os, set := c.pod.Labels[v1.LabelOSStable]; set && os != string(v1.Linux) {
		c.refuse(PodOSSelectorNodeLabelDoesNotMatch, "Failed to admit pod as the `kubernetes.io/os` label doesn't match node label")
	}
	if spec.OS != nil && spec.OS.Name != v1.Linux {
		c.refuse(PodOSNotSupported, "Failed to admit pod as the OS field doesn't match node OS")
	}
	c.runtimeClass()
	c.userNamespace()
	c.unsupported("spec.resourceClaims", len(spec.ResourceClaims) > 0)
	c.unsupported("spec.resources.claims", spec.Resources != nil && len(spec.Resources.Claims) > 0)
}

func (c *checker) runtimeClass() {
	var missing bool
	if c.handlerName, c.handler, missing = c.node.handlerFor(c.pod); missing {
		c.refuseFor(UnsupportedFeature, "spec.runtimeClassName", fmt.Sprintf("the container runtime has no handler for %q", c.handlerName))
	}
}

func (c *checker) userNamespace() {
	const path = "spec.hostUsers"
	spec := &c.pod.Spec
	switch {
	case ptr.Deref(spec.HostUsers, true):
	case !c.handler.UserNamespaces && c.handlerName == "":
		c.refuseFor(UnsupportedFeature, path, "can't set `spec.hostUsers: false`, runtime does not support user namespaces")
	case !c.handler.UserNamespaces:
		c.refuseFor(UnsupportedFeature, path,
			fmt.Sprintf("can't set `spec.hostUsers: false`, RuntimeClass handler %q does not support user namespaces", c.handlerName))
	case spec.HostNetwork && !c.node.Runtime.UserNamespacesHostNetwork:
		c.refuseFor(UnsupportedFeature, path, "the container runtime has no user namespaces in the node's network")
	}
}

func (c *checker) podSecurity() {
	c.appArmor()
	sc := c.pod.Spec.SecurityContext
	if sc == nil {
		return
	}
	strict := ptr.Deref(sc.SupplementalGroupsPolicy, v1.SupplementalGroupsPolicyMerge) == v1.SupplementalGroupsPolicyStrict
	if strict && !c.node.Runtime.SupplementalGroupsPolicy {
		// Such a runtime merges all the same.
		c.refuse(SupplementalGroupsPolicyNotSupported, "SupplementalGroupsPolicy=Strict is not supported in this node")
	}
	c.unsupported("spec.securityContext.windowsOptions", sc.WindowsOptions != nil)
	for _, s := range sc.Sysctls {
		if why := sysctlForbidden(&c.pod.Spec, s.Name, c.node.UnsafeSysctls); why != "" {
			c.refuse(SysctlForbidden, "forbidden sysctl: "+why)
		}
	}
}
