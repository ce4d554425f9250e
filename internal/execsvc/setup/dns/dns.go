package dns

import (
	"fmt"
	"net/netip"
	"slices"

	v1 "k8s.io/api/core/v1"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
	"k8s.io/utils/ptr"
)

// Settings are the node's DNS settings. Zero: a node without a cluster and without DNS.
type Settings struct {
	// ClusterDNS are the addresses of the cluster's DNS servers. Without any, ClusterFirst means Default.
	ClusterDNS []string
	// ClusterDomain is a search domain of pods that use the cluster's servers; empty: none.
	ClusterDomain string
	// ResolvConf is the node's resolv.conf. Empty: pods with the policy Default use the local host.
	ResolvConf string
	// NodeIPs are the node's addresses. Their families select the local host's addresses where there is no
	// ResolvConf; nil: IPv4.
	NodeIPs []string
}

// Warning is a warning event of the pod.
type Warning struct {
	Reason, Message string
}

// The kubelet's reasons of warnings.
const (
	MissingClusterDNS = "MissingClusterDNS"
	DNSConfigForming  = "DNSConfigForming"
)

// Config returns the DNS config of the pod's sandbox. It is never nil: for a nil or empty config, runtimes copy the
// /etc/resolv.conf that they see, which may differ from Settings' and from this process's. Errors come from the
// node's file, which pods with the policy None don't need.
func Config(pod *v1.Pod, s Settings) (*runtimeapi.DNSConfig, []Warning, error) {
	config, warnings, err := byPolicy(pod, s)
	if err != nil {
		return nil, nil, err
	}
	if own := pod.Spec.DNSConfig; own != nil {
		config.Servers = unique(append(config.Servers, own.Nameservers...))
		config.Searches = unique(append(config.Searches, own.Searches...))
		config.Options = mergeOptions(config.Options, own.Options)
	}
	return config, append(warnings, limit(config)...), nil
}

// byPolicy returns the config of the pod's policy, before its own dnsConfig.
func byPolicy(pod *v1.Pod, s Settings) (config *runtimeapi.DNSConfig, warnings []Warning, err error) {
	config = &runtimeapi.DNSConfig{}
	policy := policyOf(&pod.Spec)
	if policy == v1.DNSNone {
		return config, nil, nil
	}
	if s.ResolvConf != "" {
		if config, err = readFile(s.ResolvConf); err != nil {
			return nil, nil, err
		}
	}
	if policy == v1.DNSClusterFirst {
		if len(s.ClusterDNS) > 0 {
			return &runtimeapi.DNSConfig{
				Servers:  slices.Clone(s.ClusterDNS),
				Searches: clusterSearches(pod.Namespace, s.ClusterDomain, config.Searches),
				Options:  []string{"ndots:5"},
			}, nil, nil
		}
		warnings = []Warning{missingClusterDNS(pod)}
	}
	if s.ResolvConf == "" {
		config.Servers, config.Searches = localhost(s.NodeIPs), []string{"."}
	}
	return config, warnings, nil
}

// policyOf returns None, Default or ClusterFirst. With the host network, only ClusterFirstWithHostNet selects the
// cluster's servers.
func policyOf(spec *v1.PodSpec) v1.DNSPolicy {
	switch policy := spec.DNSPolicy; {
	case policy == v1.DNSNone || policy == v1.DNSDefault:
		return policy
	case spec.HostNetwork && policy != v1.DNSClusterFirstWithHostNet:
		return v1.DNSDefault
	default:
		return v1.DNSClusterFirst
	}
}

// localhost returns the local host's address in each family of the node.
func localhost(nodeIPs []string) []string {
	var servers []string
	for _, ip := range nodeIPs {
		server := "127.0.0.1"
		if addr, err := netip.ParseAddr(ip); err == nil && !addr.Unmap().Is4() {
			server = "::1"
		}
		servers = append(servers, server)
	}
	if len(servers) == 0 {
		return []string{"127.0.0.1"}
	}
	return unique(servers)
}

// clusterSearches returns the domains in which services are found by short names, then the node's.
func clusterSearches(namespace, domain string, node []string) []string {
	if domain == "" {
		return node
	}
	services := "svc." + domain
	return unique(append([]string{namespace + "." + services, services, domain}, node...))
}

func missingClusterDNS(pod *v1.Pod) Warning {
	return Warning{MissingClusterDNS, fmt.Sprintf(
		"pod: %q. kubelet does not have ClusterDNS IP configured and cannot create Pod using %q policy. Falling back to %q policy.",
		fmt.Sprintf("%s_%s(%s)", pod.Name, pod.Namespace, pod.UID), v1.DNSClusterFirst, v1.DNSDefault)}
}

// mergeOptions replaces the node's options by the pod's of the same name.
func mergeOptions(node []string, own []v1.PodDNSConfigOption) []string {
	var merged options
	for _, o := range node {
		merged.set(o)
	}
	for _, o := range own {
		text := o.Name
		if value := ptr.Deref(o.Value, ""); value != "" {
			text += ":" + value
		}
		merged.set(text)
	}
	return merged.list
}

// unique keeps the first of equal elements.
func unique(list []string) []string {
	seen := make(map[string]bool, len(list))
	return slices.DeleteFunc(list, func(s string) bool {
		again := seen[s]
		seen[s] = true
		return again
	})
}
