package podsecurity

import (
	"fmt"
	"slices"

	v1 "k8s.io/api/core/v1"
	"k8s.io/pod-security-admission/api"
	"k8s.io/pod-security-admission/policy"
)

// checker checks one pod.
type checker struct {
	policy.Evaluator
	level api.LevelVersion
	pod   *v1.Pod
}

// results checks the pod with another spec.
func (c checker) results(spec *v1.PodSpec) []policy.CheckResult {
	return c.EvaluatePod(c.level, &c.pod.ObjectMeta, spec)
}

// field returns the field, container or volume that is refused for a reason; empty: it isn't known. The library returns no
// fields, so each part of the spec is checked alone, until one is refused for the same reason.
func (c checker) field(reason string) string {
	all := &c.pod.Spec
	refused := func(part v1.PodSpec) bool {
		return slices.ContainsFunc(c.results(&part), func(r policy.CheckResult) bool { return !r.Allowed && r.ForbiddenReason == reason })
	}
	for _, one := range []struct {
		field string
		part  v1.PodSpec
	}{
		{"spec.hostNetwork", v1.PodSpec{HostNetwork: all.HostNetwork}}, {"spec.hostPID", v1.PodSpec{HostPID: all.HostPID}},
		{"spec.hostIPC", v1.PodSpec{HostIPC: all.HostIPC}},
	} {
		if refused(one.part) {
			return one.field
		}
	}
	for i := range all.Volumes {
		if refused(v1.PodSpec{Volumes: all.Volumes[i : i+1]}) {
			return fmt.Sprintf("spec.volumes[%d]", i)
		}
	}
	// A container has what the pod's security context gives it.
	if refused(v1.PodSpec{SecurityContext: all.SecurityContext}) {
		return "spec.securityContext"
	}
	for i := range all.InitContainers {
		if refused(v1.PodSpec{SecurityContext: all.SecurityContext, InitContainers: all.InitContainers[i : i+1]}) {
			return fmt.Sprintf("spec.initContainers[%d]", i)
		}
	}
	for i := range all.Containers {
		if refused(v1.PodSpec{SecurityContext: all.SecurityContext, Containers: all.Containers[i : i+1]}) {
			return fmt.Sprintf("spec.containers[%d]", i)
		}
	}
	return ""
}
