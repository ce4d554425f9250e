package admit

import (
	"testing"

	v1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"

	"github.com/podstream/podstream/internal/execsvc/pod/events"
)

// Without AppArmor, only pods without a profile, or with Unconfined, are admitted.
func TestCheckWithoutAppArmor(t *testing.T) {
	const annotation = "container.apparmor.security.beta.kubernetes.io/c"
	unconfined := &v1.AppArmorProfile{Type: v1.AppArmorProfileTypeUnconfined}
	for name, c := range map[string]struct {
		annotation     string
		pod, container *v1.AppArmorProfile
		refused        bool
	}{
		"nothing is said":        {},
		"unconfined":             {annotation: "unconfined", pod: unconfined, container: unconfined},
		"annotated":              {annotation: "runtime/default", refused: true},
		"the pod's":              {pod: &v1.AppArmorProfile{Type: v1.AppArmorProfileTypeRuntimeDefault}, refused: true},
		"one container's":        {pod: unconfined, container: &v1.AppArmorProfile{Type: v1.AppArmorProfileTypeRuntimeDefault}, refused: true},
		"annotated with nothing": {annotation: " ", refused: true},
	} {
		pod := other("a", v1.PodSpec{
			SecurityContext: &v1.PodSecurityContext{AppArmorProfile: c.pod},
			Containers:      []v1.Container{{Name: "c", SecurityContext: &v1.SecurityContext{AppArmorProfile: c.container}}},
		})
		if c.annotation != "" {
			pod.Annotations = map[string]string{annotation: c.annotation}
		}
		got := Check(pod, Node{}, nil)
		if c.refused {
			wantRejection(t, name, got, AppArmor, "Cannot enforce AppArmor: ", false)
		} else if len(got.Rejected) > 0 {
			t.Errorf("%s: rejected for %v", name, got.Rejected)
		}
	}
}

// A pod that has started, for example before the node was restarted without AppArmor, isn't rejected: its containers
// wait.
func TestCheckStartedPodWithoutAppArmor(t *testing.T) {
	pod := other("a", v1.PodSpec{
		SecurityContext: &v1.PodSecurityContext{AppArmorProfile: &v1.AppArmorProfile{Type: v1.AppArmorProfileTypeRuntimeDefault}},
		Containers:      []v1.Container{{Name: "c"}},
	})
	for phase, rejected := range map[v1.PodPhase]bool{"": true, v1.PodPending: true, v1.PodRunning: false} {
		pod.Status.Phase = phase
		if rejected {
			wantRejection(t, string(phase), Check(pod, Node{}, nil), AppArmor, "Cannot enforce AppArmor: ", false)
			continue
		}
		wantLack(t, string(phase), Check(pod, Node{}, nil), Lack{
			Scope: OneContainer, Container: "c", Reason: events.FailedToStart,
			Message: "spec.containers[0].securityContext.appArmorProfile: Cannot enforce AppArmor: ",
		})
	}
}

// A pod isn't rejected for an ephemeral container with a profile: only that container isn't started.
func TestCheckEphemeralContainerWithoutAppArmor(t *testing.T) {
	pod := other("a", v1.PodSpec{
		Containers: []v1.Container{{Name: "c"}},
		EphemeralContainers: []v1.EphemeralContainer{{EphemeralContainerCommon: v1.EphemeralContainerCommon{
			Name: "e", SecurityContext: &v1.SecurityContext{AppArmorProfile: &v1.AppArmorProfile{Type: v1.AppArmorProfileTypeRuntimeDefault}},
		}}},
	})
	for _, others := range [][]*v1.Pod{nil, {pod}} {
		wantLack(t, "ephemeral", Check(pod, Node{}, others), Lack{
			Scope: OneContainer, Container: "e", Reason: events.FailedToStart,
			Message: "spec.ephemeralContainers[0].securityContext.appArmorProfile: Cannot enforce AppArmor: ",
		})
	}
}

func TestCheckForbidsSysctls(t *testing.T) {
	allowed := []string{"kernel.msg*", "net.core.somaxconn", "vm.swappiness", "net/ipv4/conf/*", "user.*"}
	for name, c := range map[string]struct {
		sysctl  string
		spec    v1.PodSpec
		message string
	}{
		"safe":                 {sysctl: "net.ipv4.ip_unprivileged_port_start"},
		"safe, with slashes":   {sysctl: "net/ipv4/tcp_syncookies"},
		"safe since 1.37":      {sysctl: "net.ipv4.tcp_slow_start_after_idle"},
		"safe since 1.37, too": {sysctl: "net.ipv4.tcp_notsent_lowat"},
		"allowed, in the node's user namespace": {
			sysctl: "user.max_net_namespaces", message: `"user.max_net_namespaces" not allowed with host User enabled`,
		},
		"allowed, in the node's user namespace as it says": {
			sysctl: "user.max_net_namespaces", spec: v1.PodSpec{HostUsers: ptr.To(true)},
			message: `"user.max_net_namespaces" not allowed with host User enabled`,
		},
		"allowed, in its own user namespace": {sysctl: "user.max_net_namespaces", spec: v1.PodSpec{HostUsers: ptr.To(false)}},
		"not safe":                           {sysctl: "kernel.shmmax", message: `"kernel.shmmax" not allowlisted`},
		"not the start of a word":            {sysctl: "net.core.somaxconn2", message: `"net.core.somaxconn2" not allowlisted`},
		"the node's network": {
			sysctl: "net.ipv4.tcp_syncookies", spec: v1.PodSpec{HostNetwork: true},
			message: `"net.ipv4.tcp_syncookies" not allowed with host Net enabled`,
		},
		"the node's ipc": {
			sysctl: "kernel.shm_rmid_forced", spec: v1.PodSpec{HostIPC: true},
			message: `"kernel.shm_rmid_forced" not allowed with host IPC enabled`,
		},
		"ipc with host network":      {sysctl: "kernel.shm_rmid_forced", spec: v1.PodSpec{HostNetwork: true}},
		"allowed":                    {sysctl: "net.core.somaxconn"},
		"allowed by a prefix":        {sysctl: "kernel.msgmax"},
		"allowed by a path's prefix": {sysctl: "net/ipv4/conf/eth0.100/forwarding"},
		"allowed, in the node's ipc": {
			sysctl: "kernel.msgmax", spec: v1.PodSpec{HostIPC: true}, message: `"kernel.msgmax" not allowed with host IPC enabled`,
		},
		"allowed, but not a pod's": {sysctl: "vm.swappiness", message: `"vm.swappiness" not allowlisted`},
	} {
		pod := other("u", c.spec)
		pod.Spec.SecurityContext = &v1.PodSecurityContext{Sysctls: []v1.Sysctl{{Name: c.sysctl}}}
		got := Check(pod, Node{UnsafeSysctls: allowed}, nil)
		if c.message != "" {
			wantRejection(t, name, got, SysctlForbidden, "forbidden sysctl: "+c.message, false)
		} else if len(got.Rejected) > 0 {
			t.Errorf("%s: rejected for %v", name, got.Rejected)
		}
	}
}
