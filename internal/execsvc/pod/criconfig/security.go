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

// The paths that are hidden from a container, or read-only for it, unless its procMount is Unmasked.
var (
	maskedPaths = []string{
		"/proc/acpi", "/proc/asound", "/proc/interrupts", "/proc/kcore", "/proc/keys", "/proc/latency_stats", "/proc/sched_debug",
		"/proc/scsi", "/proc/timer_list", "/proc/timer_stats", "/sys/devices/virtual/powercap", "/sys/firmware",
	}
	readonlyPaths = []string{"/proc/bus", "/proc/fs", "/proc/irq", "/proc/sys", "/proc/sysrq-trigger"}
)

// thermalPaths are hidden too: they show the temperature of each of the node's processors, a side channel. They differ
// between machines, but don't change while one runs.
var thermalPaths = sync.OnceValue(func() []string {
	// The only error is that of a bad pattern.
	paths, _ := filepath.Glob("/sys/devices/system/cpu/cpu[0-9]*/thermal_throttle")
	return paths
})

// namespaceOptions returns the namespaces that the pod shares with the node, and those that its containers share. They
// are the same in the sandbox and in each container.
func namespaceOptions(pod *v1.Pod, ids *UserNamespace) (*runtimeapi.NamespaceOption, error) {
	spec := &pod.Spec
	users, err := userNamespace(spec, ids)
	if err != nil {
		return nil, err
	}
	options := &runtimeapi.NamespaceOption{
		Network:       runtimeapi.NamespaceMode_POD,
		Pid:           runtimeapi.NamespaceMode_CONTAINER,
		Ipc:           runtimeapi.NamespaceMode_POD,
		UsernsOptions: users,
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
	return options, nil
}

// sandboxSecurityContext returns the context of the sandbox itself. Its own process always runs with the runtime's
// seccomp profile (kubernetes#84623); each container's config has the profile of the container.
func sandboxSecurityContext(in *SandboxInput) (*runtimeapi.LinuxSandboxSecurityContext, error) {
	pod := in.Pod
	sc := ptr.Deref(pod.Spec.SecurityContext, v1.PodSecurityContext{})
	namespaces, err := namespaceOptions(pod, in.UserNamespace)
	if err != nil {
		return nil, err
	}
	policy, err := groupsPolicy(&sc)
	if err != nil {
		return nil, err
	}
	out := &runtimeapi.LinuxSandboxSecurityContext{
		NamespaceOptions:         namespaces,
		SelinuxOptions:           selinux(nil, sc.SELinuxOptions),
		Privileged:               anyPrivileged(&pod.Spec),
		Seccomp:                  &runtimeapi.SecurityProfile{ProfileType: runtimeapi.SecurityProfile_RuntimeDefault},
		SupplementalGroups:       groups(&sc, in.ExtraGroups),
		SupplementalGroupsPolicy: policy,
		RunAsUser:                int64Value(sc.RunAsUser),
	}
	// The CRI has no group without a user.
	if sc.RunAsUser != nil {
		out.RunAsGroup = int64Value(sc.RunAsGroup)
	}
	return out, nil
}

func anyPrivileged(spec *v1.PodSpec) bool {
	privileged := func(c v1.Container) bool {
		return c.SecurityContext != nil && ptr.Deref(c.SecurityContext.Privileged, false)
	}
	return slices.ContainsFunc(spec.InitContainers, privileged) || slices.ContainsFunc(spec.Containers, privileged)
}

// containerSecurityContext returns the container's own security context, and the pod's for fields that aren't set.
func containerSecurityContext(in *ContainerInput) (*runtimeapi.LinuxContainerSecurityContext, error) {
	psc := ptr.Deref(in.Pod.Spec.SecurityContext, v1.PodSecurityContext{})
	sc := ptr.Deref(in.Container.SecurityContext, v1.SecurityContext{})
	out := &runtimeapi.LinuxContainerSecurityContext{
		Capabilities:       capabilities(sc.Capabilities),
		Privileged:         ptr.Deref(sc.Privileged, false),
		SelinuxOptions:     selinux(sc.SELinuxOptions, psc.SELinuxOptions),
		ReadonlyRootfs:     ptr.Deref(sc.ReadOnlyRootFilesystem, false),
		SupplementalGroups: groups(&psc, in.ExtraGroups),
		NoNewPrivs:         noNewPrivs(&sc),
	}
	// The runtime clears them for a privileged container.
	if ptr.Deref(sc.ProcMount, v1.DefaultProcMount) != v1.UnmaskedProcMount {
		out.MaskedPaths = slices.Concat(maskedPaths, thermalPaths())
		out.ReadonlyPaths = slices.Clone(readonlyPaths)
	}
	var err error
	if out.NamespaceOptions, err = namespaceOptions(in.Pod, in.UserNamespace); err != nil {
		return nil, err
	}
	if in.TargetID != "" && out.NamespaceOptions.Pid == runtimeapi.NamespaceMode_CONTAINER {
		out.NamespaceOptions.Pid, out.NamespaceOptions.TargetId = runtimeapi.NamespaceMode_TARGET, in.TargetID
	}
	if out.SupplementalGroupsPolicy, err = groupsPolicy(&psc); err != nil {
		return nil, err
	}
	if out.Seccomp, err = seccomp(first(sc.SeccompProfile, psc.SeccompProfile), &in.Node); err != nil {
		return nil, err
	}
	profile, err := AppArmorProfile(in.Pod, in.Container)
	if err != nil {
		return nil, err
	}
	if out.Apparmor, err = apparmor(profile); err != nil {
		return nil, err
	}
	if err := setUser(out, &sc, &psc, in.ImageUser); err != nil {
		return nil, err
	}
	return out, nil
}

// groups returns the supplemental groups of all processes of the pod. extra are those of its volumes.
func groups(sc *v1.PodSecurityContext, extra []int64) []int64 {
	var all []int64
	if sc.FSGroup != nil {
		all = append(all, *sc.FSGroup)
	}
	all = append(all, sc.SupplementalGroups...)
	for _, group := range extra {
		if !slices.Contains(sc.SupplementalGroups, group) {
			all = append(all, group)
		}
	}
	return all
}

// groupsPolicy returns whether the groups that the image gives its user count too.
func groupsPolicy(sc *v1.PodSecurityContext) (runtimeapi.SupplementalGroupsPolicy, error) {
	switch policy := ptr.Deref(sc.SupplementalGroupsPolicy, v1.SupplementalGroupsPolicyMerge); policy {
	case v1.SupplementalGroupsPolicyMerge:
		return runtimeapi.SupplementalGroupsPolicy_Merge, nil
	case v1.SupplementalGroupsPolicyStrict:
		return runtimeapi.SupplementalGroupsPolicy_Strict, nil
	default:
		return 0, fmt.Errorf("supplementalGroupsPolicy: there is no policy %q", policy)
	}
}

// first returns a, or b if a is nil.
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
