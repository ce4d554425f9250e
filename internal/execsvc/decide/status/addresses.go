package status

import (
	"net/netip"
	"slices"

	v1 "k8s.io/api/core/v1"
)

// setAddresses sets the node's and the pod's IPs. A stopped pod keeps its IPs.
func setAddresses(in *Input, status *v1.PodStatus) {
	hosts := OnePerFamily(in.HostIPs, in.HostIPs)
	for _, ip := range hosts {
		status.HostIPs = append(status.HostIPs, v1.HostIP{IP: ip})
	}
	if len(hosts) > 0 {
		status.HostIP = hosts[0]
	}
	sandbox := in.Runtime.ReadySandbox()
	switch {
	case in.Pod.Spec.HostNetwork && !neverStarted(in):
		for _, ip := range hosts {
			status.PodIPs = append(status.PodIPs, v1.PodIP{IP: ip})
		}
	case sandbox != nil:
		for _, ip := range OnePerFamily(sandbox.IPs, in.HostIPs) {
			status.PodIPs = append(status.PodIPs, v1.PodIP{IP: ip})
		}
	default:
		status.PodIPs = slices.Clone(in.Previous.PodIPs)
	}
	if len(status.PodIPs) > 0 {
		status.PodIP = status.PodIPs[0].IP
	}
}

// OnePerFamily returns the first IPv4 and the first IPv6 address of ips, the family of the node's primary IP first.
func OnePerFamily(ips, hosts []string) []string {
	v4First := len(hosts) == 0 || isV4(hosts[0])
	var out []string
	for _, v4 := range []bool{v4First, !v4First} {
		for _, ip := range ips {
			if _, err := netip.ParseAddr(ip); err == nil && isV4(ip) == v4 {
				out = append(out, ip)
				break
			}
		}
	}
	return out
}

func isV4(ip string) bool {
	addr, err := netip.ParseAddr(ip)
	return err == nil && addr.Unmap().Is4()
}
