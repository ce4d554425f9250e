package criconfig

import (
	"maps"
	"strings"

	v1 "k8s.io/api/core/v1"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
	"k8s.io/utils/ptr"
)

// maxHostname is the longest hostname that Linux takes in practice (HOST_NAME_MAX is 64 with the final zero).
const maxHostname = 63

// SandboxConfig is what the runtime is told of the pod's sandbox. agent becomes its AgentAnnotation, logDir is the directory of
// all pods' logs. The cgroup parent is left to the runtime.
func SandboxConfig(pod *v1.Pod, attempt uint32, agent, logDir string) *runtimeapi.PodSandboxConfig {
	config := &runtimeapi.PodSandboxConfig{
		Metadata: &runtimeapi.PodSandboxMetadata{
			Name: pod.Name, Namespace: pod.Namespace, Uid: string(pod.UID), Attempt: attempt,
		},
		LogDirectory: LogDir(logDir, pod.Namespace, pod.Name, pod.UID),
		DnsConfig:    dnsConfig(&pod.Spec),
		Labels:       merged(pod.Labels, podLabels(pod)),
		Annotations:  merged(pod.Annotations, map[string]string{AgentAnnotation: agent}),
		Linux: &runtimeapi.LinuxPodSandboxConfig{
			SecurityContext: sandboxSecurityContext(pod),
			Sysctls:         sysctls(pod.Spec.SecurityContext),
		},
	}
	if !pod.Spec.HostNetwork {
		config.Hostname = hostname(pod)
		config.PortMappings = portMappings(&pod.Spec)
	}
	return config
}

// podLabels are the labels by which a sandbox or a container is known as the pod's.
func podLabels(pod *v1.Pod) map[string]string {
	return map[string]string{
		PodNameLabel:      pod.Name,
		PodNamespaceLabel: pod.Namespace,
		PodUIDLabel:       string(pod.UID),
	}
}

// merged is a new map of both; what own has wins.
func merged(others, own map[string]string) map[string]string {
	all := make(map[string]string, len(others)+len(own))
	maps.Copy(all, others)
	maps.Copy(all, own)
	return all
}

// hostname is the pod's hostname within a network of its own.
func hostname(pod *v1.Pod) string {
	if override := ptr.Deref(pod.Spec.HostnameOverride, ""); override != "" {
		return override
	}
	name := pod.Name
	if pod.Spec.Hostname != "" {
		name = pod.Spec.Hostname
	}
	if len(name) > maxHostname {
		name = strings.TrimRight(name[:maxHostname], "-.")
	}
	return name
}

// portMappings are the ports that containers have on the node's addresses.
func portMappings(spec *v1.PodSpec) []*runtimeapi.PortMapping {
	var mappings []*runtimeapi.PortMapping
	for i := range spec.Containers {
		for _, p := range spec.Containers[i].Ports {
			if p.HostPort == 0 {
				continue
			}
			mappings = append(mappings, &runtimeapi.PortMapping{
				Protocol: protocol(p.Protocol), ContainerPort: p.ContainerPort, HostPort: p.HostPort, HostIp: p.HostIP,
			})
		}
	}
	return mappings
}

func protocol(p v1.Protocol) runtimeapi.Protocol {
	switch p {
	case v1.ProtocolUDP:
		return runtimeapi.Protocol_UDP
	case v1.ProtocolSCTP:
		return runtimeapi.Protocol_SCTP
	default:
		return runtimeapi.Protocol_TCP
	}
}

// dnsConfig is what the pod's resolv.conf is made of. Nil: a copy of the node's. The runtime doesn't merge the two, so a
// dnsConfig that names no servers counts only with the policy None: elsewhere it would leave the pod without any.
func dnsConfig(spec *v1.PodSpec) *runtimeapi.DNSConfig {
	given := ptr.Deref(spec.DNSConfig, v1.PodDNSConfig{})
	if spec.DNSPolicy != v1.DNSNone && len(given.Nameservers) == 0 {
		return nil
	}
	config := &runtimeapi.DNSConfig{Servers: given.Nameservers, Searches: given.Searches}
	for _, o := range given.Options {
		option := o.Name
		if value := ptr.Deref(o.Value, ""); value != "" {
			option += ":" + value
		}
		config.Options = append(config.Options, option)
	}
	return config
}

func sysctls(sc *v1.PodSecurityContext) map[string]string {
	if sc == nil || len(sc.Sysctls) == 0 {
		return nil
	}
	values := make(map[string]string, len(sc.Sysctls))
	for _, s := range sc.Sysctls {
		values[SysctlName(s.Name)] = s.Value
	}
	return values
}

// swapSeparators turns a sysctl's name with slashes into one with dots: an interface's eth0.100 becomes eth0/100.
var swapSeparators = strings.NewReplacer(".", "/", "/", ".")

// SysctlName is the sysctl's name with dots, as runtimes know it. Names may be written with slashes, too; the first separator tells.
func SysctlName(name string) string {
	if i := strings.IndexAny(name, "./"); i >= 0 && name[i] == '/' {
		return swapSeparators.Replace(name)
	}
	return name
}
