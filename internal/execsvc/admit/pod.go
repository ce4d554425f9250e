package admit

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	v1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"

	"github.com/podstream/podstream/internal/execsvc/criconfig"
)

func (c *checker) podSpec(spec *v1.PodSpec) {
	c.refuse("spec.hostUsers", !ptr.Deref(spec.HostUsers, true))
	c.refuse("spec.os", spec.OS != nil && spec.OS.Name != v1.Linux)
	c.refuse("spec.resourceClaims", len(spec.ResourceClaims) > 0)
	r := ptr.Deref(spec.Resources, v1.ResourceRequirements{})
	c.refuse("spec.resources", len(r.Requests) > 0 || len(r.Limits) > 0 || len(r.Claims) > 0)
	c.refuse("spec.runtimeClassName", ptr.Deref(spec.RuntimeClassName, "") != "")

	c.ignore("spec.affinity", spec.Affinity != nil)
	// The node's resolv.conf is used, and nothing is merged into it.
	dns := ptr.Deref(spec.DNSConfig, v1.PodDNSConfig{})
	c.ignore("spec.dnsConfig", spec.DNSConfig != nil && spec.DNSPolicy != v1.DNSNone && len(dns.Nameservers) == 0)
	c.ignore("spec.dnsPolicy", spec.DNSPolicy == v1.DNSClusterFirstWithHostNet)
	c.ignore("spec.hostAliases", len(spec.HostAliases) > 0)
	c.ignore("spec.nodeSelector", len(spec.NodeSelector) > 0)
	c.ignore("spec.setHostnameAsFQDN", ptr.Deref(spec.SetHostnameAsFQDN, false))
	c.ignore("spec.subdomain", spec.Subdomain != "")
	c.ignore("spec.topologySpreadConstraints", len(spec.TopologySpreadConstraints) > 0)
}

func (c *checker) podSecurity(spec *v1.PodSpec) {
	sc := spec.SecurityContext
	if sc == nil {
		return
	}
	const path = "spec.securityContext"
	c.refuse(path+".appArmorProfile.localhostProfile", localAppArmor(sc.AppArmorProfile))
	c.refuse(path+".seLinuxOptions", sc.SELinuxOptions != nil)
	c.refuse(path+".seccompProfile.localhostProfile", localSeccomp(sc.SeccompProfile))
	// Older runtimes don't know it and merge all the same.
	c.refuse(path+".supplementalGroupsPolicy",
		ptr.Deref(sc.SupplementalGroupsPolicy, v1.SupplementalGroupsPolicyMerge) != v1.SupplementalGroupsPolicyMerge)
	c.refuse(path+".windowsOptions", sc.WindowsOptions != nil)
	for i, s := range sc.Sysctls {
		if why := sysctlForbidden(spec, s.Name); why != "" {
			c.refuseFor(SysctlForbidden, fmt.Sprintf("%s.sysctls[%d]", path, i), fmt.Sprintf("%s %s", s.Name, why))
		}
	}
}

// safeSysctls are those that act within the pod only (the kubelet's list, pkg/kubelet/sysctl/safe_sysctls.go).
var safeSysctls = map[string]bool{
	"kernel.shm_rmid_forced":              true,
	"net.ipv4.ip_local_port_range":        true,
	"net.ipv4.ip_local_reserved_ports":    true,
	"net.ipv4.ip_unprivileged_port_start": true,
	"net.ipv4.ping_group_range":           true,
	"net.ipv4.tcp_fin_timeout":            true,
	"net.ipv4.tcp_keepalive_intvl":        true,
	"net.ipv4.tcp_keepalive_probes":       true,
	"net.ipv4.tcp_keepalive_time":         true,
	"net.ipv4.tcp_rmem":                   true,
	"net.ipv4.tcp_syncookies":             true,
	"net.ipv4.tcp_wmem":                   true,
}

// sysctlForbidden is why a pod mustn't set the sysctl, or empty. Both spellings of names, with dots and with slashes, are known.
func sysctlForbidden(spec *v1.PodSpec, name string) string {
	name = criconfig.SysctlName(name)
	switch {
	case !safeSysctls[name]:
		return "isn't among the safe sysctls"
	case spec.HostNetwork && strings.HasPrefix(name, "net."):
		return "would be the node's, with hostNetwork"
	case spec.HostIPC && strings.HasPrefix(name, "kernel.shm"):
		return "would be the node's, with hostIPC"
	}
	return ""
}

func localAppArmor(p *v1.AppArmorProfile) bool {
	return p != nil && p.Type == v1.AppArmorProfileTypeLocalhost
}

func localSeccomp(p *v1.SeccompProfile) bool {
	return p != nil && p.Type == v1.SeccompProfileTypeLocalhost
}

func sortedKeys[K ~string, V any](m map[K]V) []K { return slices.Sorted(maps.Keys(m)) }
