package criconfig

import (
	"maps"
	"strings"

	v1 "k8s.io/api/core/v1"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/podstream/podstream/internal/execsvc/pod/podmeta"
)

// SandboxInput is the input of SandboxConfig.
type SandboxInput struct {
	Pod *v1.Pod
	// Attempt is how many sandboxes the pod has had before.
	Attempt uint32
	// Agent is the value of podmeta.AgentAnnotation.
	Agent string
	// LogsDir is the directory of all pods' logs.
	LogsDir string
	// Hostname and Domain come from HostnameOf.
	Hostname, Domain string
	// DNS is the content of the pod's resolv.conf. Nil: the runtime copies the node's.
	DNS *runtimeapi.DNSConfig
	// CgroupParent is the pod's cgroup; empty: the runtime's choice.
	CgroupParent string
	// ExtraGroups are groups that volumes give to the pod's processes.
	ExtraGroups []int64
	// UserNamespace has the user and group IDs of a pod with hostUsers: false.
	UserNamespace *UserNamespace
	Node          Node
}

// SandboxConfig returns the CRI config of the pod's sandbox. It fails if the pod's settings can't be provided.
func SandboxConfig(in SandboxInput) (*runtimeapi.PodSandboxConfig, error) {
	pod := in.Pod
	security, err := sandboxSecurityContext(&in)
	if err != nil {
		return nil, err
	}
	config := &runtimeapi.PodSandboxConfig{
		Metadata: &runtimeapi.PodSandboxMetadata{
			Name: pod.Name, Namespace: pod.Namespace, Uid: string(pod.UID), Attempt: in.Attempt,
		},
		LogDirectory: podmeta.LogDir(in.LogsDir, pod.Namespace, pod.Name, pod.UID),
		DnsConfig:    in.DNS,
		PortMappings: portMappings(&pod.Spec),
		Labels:       merged(pod.Labels, podmeta.Labels(pod)),
		Annotations:  merged(pod.Annotations, map[string]string{podmeta.AgentAnnotation: in.Agent}),
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
	}
	return config, nil
}

// merged returns a new map of both; own wins.
func merged(others, own map[string]string) map[string]string {
	all := make(map[string]string, len(others)+len(own))
	maps.Copy(all, others)
	maps.Copy(all, own)
	return all
}

// portMappings returns the ports of the main containers. As with the kubelet, these are all of them, also in the node's
// network: the runtime maps those that have a hostPort, and some tell their network plugin or sandbox of the others.
func portMappings(spec *v1.PodSpec) []*runtimeapi.PortMapping {
	var mappings []*runtimeapi.PortMapping
	for i := range spec.Containers {
		seen := map[v1.ContainerPort]bool{}
		for _, p := range spec.Containers[i].Ports {
			if seen[p] {
				continue
			}
			seen[p] = true
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

// swapSeparators converts a sysctl's name with slashes to one with dots: an interface's eth0.100 becomes eth0/100.
var swapSeparators = strings.NewReplacer(".", "/", "/", ".")

// SysctlName returns the sysctl's name with dots, as runtimes expect it. A name may be written with slashes, too; its
// first separator decides.
func SysctlName(name string) string {
	if i := strings.IndexAny(name, "./"); i >= 0 && name[i] == '/' {
		return swapSeparators.Replace(name)
	}
	return name
}
