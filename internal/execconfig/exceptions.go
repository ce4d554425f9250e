package execconfig

import (
	"fmt"

	"github.com/spf13/pflag"
	kubeletconfigv1beta1 "k8s.io/kubelet/config/v1beta1"
)

// exceptions returns a line for each setting that is left to its default, where that isn't the kubelet's. docs/fields.md
// has the same list.
func exceptions(set *pflag.FlagSet, c *kubeletconfigv1beta1.KubeletConfiguration) (lines []string) {
	given := func(flag string, inFile bool) bool { return inFile || set.Changed(flag) }
	add := func(field, value, kubelets, reason string) {
		lines = append(lines, fmt.Sprintf("%s is %s by default, and %s with the kubelet: %s", field, value, kubelets, reason))
	}
	if !given("fail-cgroupv1", c.FailCgroupV1 != nil) {
		add("failCgroupV1", "false", "true", "an upgrade of the agent must not end the pods of a node with cgroup v1")
	}
	if !given("serialize-image-pulls", c.SerializeImagePulls != nil) {
		add("serializeImagePulls", "false", "true", "one slow pull would delay all other pods")
	}
	cgroups := c.CgroupsPerQOS == nil || *c.CgroupsPerQOS
	if set.Changed("cgroups-per-qos") {
		cgroups, _ = set.GetBool("cgroups-per-qos") // It is a boolean flag.
	}
	if !cgroups && !given("enforce-node-allocatable", c.EnforceNodeAllocatable != nil) {
		add("enforceNodeAllocatable", "[none] without cgroupsPerQOS", "[pods]", "the kubelet doesn't start then")
	}
	return lines
}
