package admit

import (
	"fmt"
	"slices"
	"strings"

	v1 "k8s.io/api/core/v1"
	"k8s.io/component-helpers/node/util/sysctl"
	"k8s.io/utils/ptr"

	"github.com/podstream/podstream/internal/execsvc/pod/criconfig"
)

// safeSysctls affect only the pod itself (the kubelet's pkg/kubelet/sysctl/safe_sysctls.go). Every kernel that
// podexecd runs on has a value of each for every namespace.
var safeSysctls = []string{
	"kernel.shm_rmid_forced",
	"net.ipv4.ip_local_port_range",
	"net.ipv4.ip_local_reserved_ports",
	"net.ipv4.ip_unprivileged_port_start",
	"net.ipv4.ping_group_range",
	"net.ipv4.tcp_fin_timeout",
	"net.ipv4.tcp_keepalive_intvl",
	"net.ipv4.tcp_keepalive_probes",
	"net.ipv4.tcp_keepalive_time",
	"net.ipv4.tcp_notsent_lowat",
	"net.ipv4.tcp_rmem",
	"net.ipv4.tcp_slow_start_after_idle",
	"net.ipv4.tcp_syncookies",
	"net.ipv4.tcp_wmem",
}

// sysctlForbidden returns why a pod must not set the sysctl; empty if it may. The name may be spelled with dots or
// with slashes.
func sysctlForbidden(spec *v1.PodSpec, name string, allowedUnsafe []string) string {
	name = criconfig.SysctlName(name)
	for _, pattern := range slices.Concat(safeSysctls, allowedUnsafe) {
		// The namespace of a prefix applies to all its sysctls; the namespace of a full name may be unknown.
		namespace, allowed, prefix := sysctl.GetNamespace(pattern)
		if namespace == sysctl.UnknownNamespace || name != allowed && !(prefix && strings.HasPrefix(name, allowed)) {
			continue
		}
		if sharesHost(spec, namespace) {
			return fmt.Sprintf("%q not allowed with host %s enabled", name, namespace)
		}
		return ""
	}
	return fmt.Sprintf("%q not allowlisted", name)
}

// sharesHost reports whether the pod has the host's namespace of that kind: its sysctls are those of the whole node.
func sharesHost(spec *v1.PodSpec, namespace sysctl.Namespace) bool {
	switch namespace {
	case sysctl.NetNamespace:
		return spec.HostNetwork
	case sysctl.IPCNamespace:
		return spec.HostIPC
	case sysctl.UserNamespace:
		return ptr.Deref(spec.HostUsers, true)
	}
	return false
}
