package execconfig

import (
	"fmt"
	"maps"
	"slices"

	kubeletconfigv1beta1 "k8s.io/kubelet/config/v1beta1"

	"github.com/podstream/podstream/internal/kubeletconfig"
	"github.com/podstream/podstream/internal/kubeletconfig/document"
)

// unsupportedField is a field for podexecd that this version doesn't act upon.
type unsupportedField struct {
	name string
	// unsafe is the effect of ignoring the field, if the node is then less safe than the file says. Empty: ignoring
	// it does no harm.
	unsafe string
	// differs reports, of an unsafe field that is set, whether its value asks for more than podexecd does. The kubelet's
	// default never does.
	differs func(*kubeletconfigv1beta1.KubeletConfiguration) bool
}

// unsupported are all such fields. Each field for podexecd is here or in a list of supported ones.
var unsupported = []unsupportedField{
	{
		name: "cpuManagerPolicy", unsafe: "no container gets exclusive CPUs, so other pods would run on those that it counts on",
		differs: func(c *kubeletconfigv1beta1.KubeletConfiguration) bool { return c.CPUManagerPolicy != "none" },
	},
	{
		name: "memoryManagerPolicy", unsafe: "no memory of a NUMA node is set aside for a container, so other pods would use it",
		differs: func(c *kubeletconfigv1beta1.KubeletConfiguration) bool {
			return c.MemoryManagerPolicy != kubeletconfigv1beta1.NoneMemoryManagerPolicy
		},
	},
	{
		// A pod without alignment is admitted under best-effort too.
		name: "topologyManagerPolicy", unsafe: "pods are not aligned to NUMA nodes, so a pod that the policy rejects would run",
		differs: func(c *kubeletconfigv1beta1.KubeletConfiguration) bool {
			p := c.TopologyManagerPolicy
			return p != kubeletconfigv1beta1.NoneTopologyManagerPolicy && p != kubeletconfigv1beta1.BestEffortTopologyManagerPolicy
		},
	},
	{
		name: "qosReserved", unsafe: "no memory is reserved for guaranteed pods, so other pods could use all of it",
		// The kubelet ignores the field without its feature gate.
		differs: func(c *kubeletconfigv1beta1.KubeletConfiguration) bool {
			return len(c.QOSReserved) > 0 && (c.FeatureGates["QOSReserved"] || c.FeatureGates["AllAlpha"])
		},
	},
	{
		name: "defaultPodSysctls", unsafe: "pods would run without these sysctls, with the kernel's values",
		differs: func(c *kubeletconfigv1beta1.KubeletConfiguration) bool { return len(c.DefaultPodSysctls) > 0 },
	},

	// These have an effect only beside a policy that is refused above, or are preferences.
	{name: "cpuManagerPolicyOptions"},
	{name: "cpuManagerReconcilePeriod"},
	{name: "reservedMemory"},
	{name: "topologyManagerScope"},
	{name: "topologyManagerPolicyOptions"},
	// The kubelet accepts the field, and the CNI plugin decides.
	{name: "hairpinMode"},
}

// isSupported reports whether a field sets Settings.
func isSupported(field string) bool {
	return supported[field] || slices.Contains(supportedOfNode, field) || slices.Contains(supportedOfCluster, field) ||
		slices.Contains(supportedOfImageGC, field) || slices.Contains(supportedOfLogRotation, field) || slices.Contains(supportedOfHost, field) ||
		slices.Contains(supportedOfShutdown, field) || slices.Contains(supportedOfTracing, field) || slices.Contains(supportedOfImageAccess, field)
}

// settleUnsupported returns the fields that are set but have no effect, and an error for each one that is unsafe to
// ignore. A field that is in no list is unsafe: its effect is unknown.
// flagOf has the flags that set a field, by field.
func settleUnsupported(file *kubeletconfig.Config, flagOf map[string]string) (ignored []string, mistakes []error) {
	names := append(file.Podexecd(), slices.Sorted(maps.Keys(flagOf))...)
	slices.Sort(names)
	for _, name := range slices.Compact(names) {
		if isSupported(name) {
			continue
		}
		unsafe := "its effect on pods is unknown"
		if i := slices.IndexFunc(unsupported, func(f unsupportedField) bool { return f.name == name }); i >= 0 {
			field := &unsupported[i]
			if field.unsafe == "" || !field.differs(&file.KubeletConfiguration) {
				ignored = append(ignored, name)
				continue
			}
			unsafe = field.unsafe
		}
		reason := "this version of podexecd does not support it: " + unsafe + "; remove it, or run the kubelet on this node"
		if flag := flagOf[name]; flag != "" {
			mistakes = append(mistakes, fmt.Errorf("--%s: %s", flag, reason))
			continue
		}
		mistakes = append(mistakes, file.Mistake(document.Field{name}, reason))
	}
	return ignored, mistakes
}
