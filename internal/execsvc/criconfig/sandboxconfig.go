package criconfig

import (
	"maps"
	"strings"

	v1 "k8s.io/api/core/v1"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// SandboxInput is what a sandbox is made of.
type SandboxInput struct {
	Pod *v1.Pod
	// Attempt is how many sandboxes the pod has had before.
	Attempt uint32
	// Agent becomes the AgentAnnotation.
	Agent string
	// LogsDir is the directory of all pods' logs.
	LogsDir string
	// Hostname and Domain are those of HostnameOf.
	Hostname, Domain string
	// DNS is what the pod's resolv.conf is made of. Nil: the runtime copies the node's.
	DNS *runtimeapi.DNSConfig
	// CgroupParent is the pod's cgroup; empty: the runtime's choice.
	CgroupParent string
	// UserNamespace are the users and groups of a pod with hostUsers: false.
	UserNamespace *UserNamespace
	Node          Node
}

// SandboxConfig is what the runtime is told of the pod's sandbox. It fails on what the pod asks for but can't be given.
func SandboxConfig(in SandboxInput) (*runtimeapi.PodSandboxConfig, error) {
	pod := in.Pod
	security, err := sandboxSecurityContext(pod, in.UserNamespace)
	if err != nil {
		return nil, err
	}
	config := &runtimeapi.PodSandboxConfig{
		Metadata: &runtimeapi.PodSandboxMetadata{
			Name: pod.Name, Namespace: pod.Namespace, Uid: string(pod.UID), Attempt: in.Attempt,
		},
		LogDirectory: LogDir(in.LogsDir, pod.Namespace, pod.Name, pod.UID),
		DnsConfig:    in.DNS,
		Labels:       merged(pod.Labels, podLabels(pod)),
		Annotations:  merged(pod.Annotations, map[string]string{AgentAnnotation: in.Agent}),
		Linux: &runtimeapi.LinuxPodSandboxConfig{
			CgroupParent:    in.CgroupParent,
			SecurityContext: security,
			Sysctls:         sysctls(pod.Spec.SecurityContext),
			Resources:       sandboxResources(pod, &in.Node),
			Overhead:        overheadResources(pod, &in.Node),
		},
	}
	if !pod.Spec.HostNetwork {
		config.Hostname = nodename(&pod.Spec, in.Hostname, in.Domain)
		config.PortMappings = portMappings(&pod.Spec)
	}
	return config, nil
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
