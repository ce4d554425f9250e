package criconfig

import (
	"fmt"
	"path/filepath"
	"slices"
	"sync"

	v1 "k8s.io/api/core/v1"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
	"k8s.io/utils/ptr"
)

// The paths that a container doesn't see, or can't write to, unless its procMount is Unmasked.
var (
	maskedPaths = []string{
		"/proc/acpi", "/proc/asound", "/proc/interrupts", "/proc/kcore", "/proc/keys", "/proc/latency_stats", "/proc/sched_debug",
		"/proc/scsi", "/proc/timer_list", "/proc/timer_stats", "/sys/devices/virtual/powercap", "/sys/firmware",
	}
	readonlyPaths = []string{"/proc/bus", "/proc/fs", "/proc/irq", "/proc/sys", "/proc/sysrq-trigger"}
)

// thermalPaths are masked too: they show the temperature of each of the node's processors, a side channel. They differ from
// machine to machine, but not while it runs.
var thermalPaths = sync.OnceValue(func() []string {
	// The only error is that of a bad pattern.
	paths, _ := filepath.Glob("/sys/devices/system/cpu/cpu[0-9]*/thermal_throttle")
	return paths
})

// namespaceOptions says which namespaces the pod shares with the node, and which its containers share. They are the same in the
// sandbox and in each container.
func namespaceOptions(spec *v1.PodSpec) *runtimeapi.NamespaceOption {
	options := &runtimeapi.NamespaceOption{
		Network: runtimeapi.NamespaceMode_POD,
		Pid:     runtimeapi.NamespaceMode_CONTAINER,
		Ipc:     runtimeapi.NamespaceMode_POD,
	}
	if spec.HostNetwork {
		options.Network = runtimeapi.NamespaceMode_NODE
	}
	if spec.HostIPC {
		options.Ipc = runtimeapi.NamespaceMode_NODE
	}
	switch {
	case spec.HostPID:
		options.Pid = runtimeapi.NamespaceMode_NODE
	case ptr.Deref(spec.ShareProcessNamespace, false):
		options.Pid = runtimeapi.NamespaceMode_POD
	}
	return options
}

// sandboxSecurityContext is that of the sandbox itself. Its own process always runs under the runtime's seccomp profile
// (kubernetes#84623); what the containers run under is said with them.
func sandboxSecurityContext(pod *v1.Pod) *runtimeapi.LinuxSandboxSecurityContext {
	sc := ptr.Deref(pod.Spec.SecurityContext, v1.PodSecurityContext{})
	out := &runtimeapi.LinuxSandboxSecurityContext{
		NamespaceOptions:         namespaceOptions(&pod.Spec),
		Privileged:               anyPrivileged(&pod.Spec),
		Seccomp:                  &runtimeapi.SecurityProfile{ProfileType: runtimeapi.SecurityProfile_RuntimeDefault},
		SupplementalGroups:       groups(&sc),
		SupplementalGroupsPolicy: groupsPolicy(&sc),
		RunAsUser:                int64Value(sc.RunAsUser),
	}
	// The CRI knows no group without a user.
	if sc.RunAsUser != nil {
		out.RunAsGroup = int64Value(sc.RunAsGroup)
	}
	return out
}

func anyPrivileged(spec *v1.PodSpec) bool {
	privileged := func(c v1.Container) bool {
		return c.SecurityContext != nil && ptr.Deref(c.SecurityContext.Privileged, false)
	}
	return slices.ContainsFunc(spec.InitContainers, privileged) || slices.ContainsFunc(spec.Containers, privileged)
}

// containerSecurityContext is the container's own security context, and where it says nothing, the pod's. image is nil if
// nothing is known of the image's user.
func containerSecurityContext(pod *v1.Pod, c *v1.Container, image *ImageUser) (*runtimeapi.LinuxContainerSecurityContext, error) {
	psc := ptr.Deref(pod.Spec.SecurityContext, v1.PodSecurityContext{})
	sc := ptr.Deref(c.SecurityContext, v1.SecurityContext{})
	out := &runtimeapi.LinuxContainerSecurityContext{
		Capabilities:             capabilities(sc.Capabilities),
		Privileged:               ptr.Deref(sc.Privileged, false),
		NamespaceOptions:         namespaceOptions(&pod.Spec),
		ReadonlyRootfs:           ptr.Deref(sc.ReadOnlyRootFilesystem, false),
		SupplementalGroups:       groups(&psc),
		SupplementalGroupsPolicy: groupsPolicy(&psc),
		NoNewPrivs:               !ptr.Deref(sc.AllowPrivilegeEscalation, true),
	}
	if ptr.Deref(sc.ProcMount, v1.DefaultProcMount) != v1.UnmaskedProcMount {
		out.MaskedPaths = slices.Concat(maskedPaths, thermalPaths())
		out.ReadonlyPaths = slices.Clone(readonlyPaths)
	}
	var err error
	if out.Seccomp, err = seccomp(first(sc.SeccompProfile, psc.SeccompProfile)); err != nil {
		return nil, err
	}
	if out.Apparmor, err = apparmor(first(sc.AppArmorProfile, psc.AppArmorProfile)); err != nil {
		return nil, err
	}
	if err := setUser(out, &sc, &psc, image); err != nil {
		return nil, err
	}
	return out, nil
}

// groups are the groups that all processes of the pod are in.
func groups(sc *v1.PodSecurityContext) []int64 {
	var all []int64
	if sc.FSGroup != nil {
		all = append(all, *sc.FSGroup)
	}
	return append(all, sc.SupplementalGroups...)
}

func groupsPolicy(sc *v1.PodSecurityContext) runtimeapi.SupplementalGroupsPolicy {
	if ptr.Deref(sc.SupplementalGroupsPolicy, v1.SupplementalGroupsPolicyMerge) == v1.SupplementalGroupsPolicyStrict {
		return runtimeapi.SupplementalGroupsPolicy_Strict
	}
	return runtimeapi.SupplementalGroupsPolicy_Merge
}

func capabilities(c *v1.Capabilities) *runtimeapi.Capability {
	if c == nil {
		return nil
	}
	out := &runtimeapi.Capability{}
	for _, name := range c.Add {
		out.AddCapabilities = append(out.AddCapabilities, string(name))
	}
	for _, name := range c.Drop {
		out.DropCapabilities = append(out.DropCapabilities, string(name))
	}
	return out
}

// seccomp is unconfined where nothing is said, as the kubelet has it.
func seccomp(profile *v1.SeccompProfile) (*runtimeapi.SecurityProfile, error) {
	kind := v1.SeccompProfileTypeUnconfined
	if profile != nil {
		kind = profile.Type
	}
	switch kind {
	case v1.SeccompProfileTypeRuntimeDefault:
		return &runtimeapi.SecurityProfile{ProfileType: runtimeapi.SecurityProfile_RuntimeDefault}, nil
	case v1.SeccompProfileTypeUnconfined:
		return &runtimeapi.SecurityProfile{ProfileType: runtimeapi.SecurityProfile_Unconfined}, nil
	default:
		return nil, fmt.Errorf("seccompProfile type %s isn't supported yet", kind)
	}
}

// apparmor is nil, the runtime's own choice, where nothing is said.
func apparmor(profile *v1.AppArmorProfile) (*runtimeapi.SecurityProfile, error) {
	if profile == nil {
		return nil, nil
	}
	switch profile.Type {
	case v1.AppArmorProfileTypeRuntimeDefault:
		return &runtimeapi.SecurityProfile{ProfileType: runtimeapi.SecurityProfile_RuntimeDefault}, nil
	case v1.AppArmorProfileTypeUnconfined:
		return &runtimeapi.SecurityProfile{ProfileType: runtimeapi.SecurityProfile_Unconfined}, nil
	default:
		return nil, fmt.Errorf("appArmorProfile type %s isn't supported yet", profile.Type)
	}
}

// first is a, or b if a isn't set.
func first[T any](a, b *T) *T {
	if a != nil {
		return a
	}
	return b
}

func int64Value(v *int64) *runtimeapi.Int64Value {
	if v == nil {
		return nil
	}
	return &runtimeapi.Int64Value{Value: *v}
}
