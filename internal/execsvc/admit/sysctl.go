package admit

import (
	"fmt"
	"slices"
	"strings"

	v1 "k8s.io/api/core/v1"
	"k8s.io/component-helpers/node/util/sysctl"

	"github.com/podstream/podstream/internal/execsvc/criconfig"
)

// safeSysctls are those that act within the pod only, and can't harm another (the kubelet's pkg/kubelet/sysctl/safe_sysctls.go). Every
// kernel that podexecd runs on has a value of each for every namespace.
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
	"net.ipv4.tcp_rmem",
	"net.ipv4.tcp_syncookies",
	"net.ipv4.tcp_wmem",
}

// NamespacedSysctl tells whether all that the pattern stands for can have a value of its own in a pod. Another one would be the whole
// node's, and the kubelet doesn't start with it among its allowedUnsafeSysctls.
func NamespacedSysctl(pattern string) bool {
	namespace, _, _ := sysctl.GetNamespace(pattern)
	return namespace != sysctl.UnknownNamespace
}

// sysctlForbidden is why a pod mustn't set the sysctl, or empty. Both spellings of names, with dots and with slashes, are known.
func sysctlForbidden(spec *v1.PodSpec, name string, allowedUnsafe []string) string {
	name = criconfig.SysctlName(name)
	for _, pattern := range slices.Concat(safeSysctls, allowedUnsafe) {
		// What a prefix stands for is in the prefix's own namespace: of names alone only a few are known.
		namespace, allowed, prefix := sysctl.GetNamespace(pattern)
		if namespace == sysctl.UnknownNamespace || name != allowed && !(prefix && strings.HasPrefix(name, allowed)) {
			continue
		}
		if spec.HostNetwork && namespace == sysctl.NetNamespace || spec.HostIPC && namespace == sysctl.IPCNamespace {
			return fmt.Sprintf("%q not allowed with host %s enabled", name, namespace)
		}
		return ""
	}
	return fmt.Sprintf("%q not allowlisted", name)
}
