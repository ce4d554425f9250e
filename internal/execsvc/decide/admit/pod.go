package admit

import (
	"fmt"
	"strings"

	v1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"

	"github.com/podstream/podstream/internal/execsvc/pod/events"
)

func (c *checker) podSpec() {
	spec := &c.pod.Spec
	if os, set := c.pod.Labels[v1.LabelOSStable]; set && os != string(v1.Linux) && !c.admitted {
		c.reject(PodOSSelectorNodeLabelDoesNotMatch, "Failed to admit pod as the `kubernetes.io/os` label doesn't match node label")
	}
	if spec.OS != nil && spec.OS.Name != v1.Linux && !c.admitted {
		c.reject(PodOSNotSupported, "Failed to admit pod as the OS field doesn't match node OS")
	}
	c.runtimeClass()
	c.userNamespace()
	if len(spec.ResourceClaims) > 0 {
		c.lack(WholePod, events.FailedPrepareResources, "spec.resourceClaims", notYet)
	}
	if spec.Resources != nil && len(spec.Resources.Claims) > 0 {
		c.lack(WholePod, events.FailedPrepareResources, "spec.resources.claims", notYet)
	}
}

func (c *checker) runtimeClass() {
	var missing bool
	if c.handlerName, c.handler, missing = c.node.handlerFor(c.pod); missing {
		c.sandboxLack("spec.runtimeClassName", fmt.Sprintf("the container runtime has no handler for %q", c.handlerName))
	}
}

func (c *checker) userNamespace() {
	const path = "spec.hostUsers"
	spec := &c.pod.Spec
	switch {
	case ptr.Deref(spec.HostUsers, true):
	case !c.handler.UserNamespaces && c.handlerName == "":
		c.sandboxLack(path, "can't set `spec.hostUsers: false`, runtime does not support user namespaces")
	case !c.handler.UserNamespaces:
		c.sandboxLack(path, fmt.Sprintf("can't set `spec.hostUsers: false`, RuntimeClass handler %q does not support user namespaces", c.handlerName))
	}
}

// MissingFeatures returns the kubelet's message about a pod that needs features which the node doesn't declare.
func MissingFeatures(names []string) string {
	return "Pod requires node features that are not available: " + strings.Join(names, ", ")
}

// declaredFeatures checks that the node declares the features that the pod needs. The scheduler assigns no other pods.
func (c *checker) declaredFeatures() {
	missing := c.node.Declared.Missing(c.pod)
	if len(missing) == 0 {
		return
	}
	const path = "spec"
	message := MissingFeatures(missing)
	if c.node.Runtime.Silent {
		c.sandboxLack(path, message+"; the container runtime, which may have them, doesn't answer")
		return
	}
	c.rejectOnce(PodFeatureUnsupported, path, message)
}

// sandboxLack records a field that a new sandbox can't have.
func (c *checker) sandboxLack(path, why string) {
	c.lack(NewSandbox, events.FailedCreatePodSandbox, path, why)
}

// rejectOnce rejects the pod. A pod that was admitted before is not rejected after a change; it gets no new sandbox.
func (c *checker) rejectOnce(reason, path, message string) {
	if c.admitted {
		c.sandboxLack(path, message)
		return
	}
	c.reject(reason, message)
}

func (c *checker) podSecurity() {
	c.podAppArmor()
	sc := c.pod.Spec.SecurityContext
	if sc == nil {
		return
	}
	if ptr.Deref(sc.SupplementalGroupsPolicy, v1.SupplementalGroupsPolicyMerge) == v1.SupplementalGroupsPolicyStrict {
		c.strictGroups("spec.securityContext.supplementalGroupsPolicy")
	}
	c.ignore("spec.securityContext.windowsOptions", sc.WindowsOptions != nil)
	for i, s := range sc.Sysctls {
		if why := sysctlForbidden(&c.pod.Spec, s.Name, c.node.UnsafeSysctls); why != "" {
			c.rejectOnce(SysctlForbidden, fmt.Sprintf("spec.securityContext.sysctls[%d]", i), "forbidden sysctl: "+why)
		}
	}
}

// strictGroups checks that the runtime doesn't add the image's own groups. A runtime without the feature adds them
// silently.
func (c *checker) strictGroups(path string) {
	switch {
	case c.node.Runtime.SupplementalGroupsPolicy:
	case c.node.Runtime.Silent:
		c.sandboxLack(path, "the container runtime doesn't answer, so it isn't known whether it supports Strict")
	default:
		c.rejectOnce(SupplementalGroupsPolicyNotSupported, path, "SupplementalGroupsPolicy=Strict is not supported in this node")
	}
}
