package criconfig

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/testing/protocmp"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
	"k8s.io/utils/ptr"

	"github.com/podstream/podstream/internal/execsvc/pod/podmeta"
)

func webPod() *v1.Pod {
	return &v1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: "default", Name: "web-node1", UID: "u1",
			Labels:      map[string]string{"app": "web", podmeta.PodNameLabel: "forged"},
			Annotations: map[string]string{"note": "x", podmeta.SourceAnnotation: "file", podmeta.AgentAnnotation: "forged"},
		},
		Spec: v1.PodSpec{Containers: []v1.Container{{Name: "nginx", Image: "nginx:1"}}},
	}
}

// nodesUsers is said of a pod in the node's user namespace: without it a runtime must assume one of the pod's own.
func nodesUsers() *runtimeapi.UserNamespace {
	return &runtimeapi.UserNamespace{Mode: runtimeapi.NamespaceMode_NODE}
}

func sandboxOf(t *testing.T, in SandboxInput) *runtimeapi.PodSandboxConfig {
	t.Helper()
	got, err := SandboxConfig(in)
	if err != nil {
		t.Fatal(err)
	}
	return got
}

func TestSandboxConfig(t *testing.T) {
	pod := webPod()
	pod.Spec.Containers[0].Ports = []v1.ContainerPort{
		{ContainerPort: 80, HostPort: 8080, HostIP: "127.0.0.1"}, {ContainerPort: 81},
		{ContainerPort: 53, HostPort: 5353, Protocol: v1.ProtocolUDP}, {ContainerPort: 9, HostPort: 9, Protocol: v1.ProtocolSCTP},
	}
	pod.Spec.SecurityContext = &v1.PodSecurityContext{Sysctls: []v1.Sysctl{{Name: "net.ipv4.tcp_syncookies", Value: "1"}}}
	dns := &runtimeapi.DNSConfig{Servers: []string{"10.0.0.1"}}
	want := &runtimeapi.PodSandboxConfig{
		Metadata:     &runtimeapi.PodSandboxMetadata{Name: "web-node1", Namespace: "default", Uid: "u1", Attempt: 2},
		Hostname:     "web",
		DnsConfig:    dns,
		LogDirectory: "/var/log/pods/default_web-node1_u1",
		Labels: map[string]string{
			"app": "web", podmeta.PodNameLabel: "web-node1", podmeta.PodNamespaceLabel: "default", podmeta.PodUIDLabel: "u1",
		},
		Annotations: map[string]string{"note": "x", podmeta.SourceAnnotation: "file", podmeta.AgentAnnotation: "agent1"},
		PortMappings: []*runtimeapi.PortMapping{
			{ContainerPort: 80, HostPort: 8080, HostIp: "127.0.0.1"},
			{ContainerPort: 81},
			{ContainerPort: 53, HostPort: 5353, Protocol: runtimeapi.Protocol_UDP},
			{ContainerPort: 9, HostPort: 9, Protocol: runtimeapi.Protocol_SCTP},
		},
		Linux: &runtimeapi.LinuxPodSandboxConfig{
			CgroupParent: "/kubepods/podu1",
			Sysctls:      map[string]string{"net.ipv4.tcp_syncookies": "1"},
			Resources:    &runtimeapi.LinuxContainerResources{CpuShares: 2, CpuPeriod: 100000},
			Overhead:     &runtimeapi.LinuxContainerResources{},
			SecurityContext: &runtimeapi.LinuxSandboxSecurityContext{
				NamespaceOptions: &runtimeapi.NamespaceOption{Pid: runtimeapi.NamespaceMode_CONTAINER, UsernsOptions: nodesUsers()},
				Seccomp:          &runtimeapi.SecurityProfile{ProfileType: runtimeapi.SecurityProfile_RuntimeDefault},
			},
		},
	}
	got := sandboxOf(t, SandboxInput{
		Pod: pod, Attempt: 2, Agent: "agent1", LogsDir: "/var/log/pods", Hostname: "web", DNS: dns, CgroupParent: "/kubepods/podu1",
	})
	if diff := cmp.Diff(want, got, protocmp.Transform()); diff != "" {
		t.Errorf("SandboxConfig (-want +got):\n%s", diff)
	}
	if pod.Labels[podmeta.PodNameLabel] != "forged" || pod.Annotations[podmeta.AgentAnnotation] != "forged" {
		t.Error("SandboxConfig changed the pod")
	}
}

func TestSandboxConfigWithHostNetwork(t *testing.T) {
	pod := webPod()
	pod.Spec.HostNetwork = true
	if got := sandboxOf(t, SandboxInput{Pod: pod, Hostname: "web"}); got.GetHostname() != "" {
		t.Errorf("hostname %q; want none, it is the node's", got.GetHostname())
	}
}

// The kubelet sends the ports of each main container, once, with a hostPort or without, and also in the node's network.
func TestPortMappings(t *testing.T) {
	inner, outer := v1.ContainerPort{ContainerPort: 81}, v1.ContainerPort{ContainerPort: 80, HostPort: 80}
	pod := webPod()
	pod.Spec.InitContainers = []v1.Container{{Name: "init", Ports: []v1.ContainerPort{{ContainerPort: 9}}}}
	pod.Spec.Containers[0].Ports = []v1.ContainerPort{inner, inner, outer, {Name: "admin", ContainerPort: 81}}
	pod.Spec.Containers = append(pod.Spec.Containers, v1.Container{Name: "other", Ports: []v1.ContainerPort{inner}})
	want := []*runtimeapi.PortMapping{{ContainerPort: 81}, {ContainerPort: 80, HostPort: 80}, {ContainerPort: 81}, {ContainerPort: 81}}
	for _, pod.Spec.HostNetwork = range []bool{false, true} {
		got := sandboxOf(t, SandboxInput{Pod: pod, Hostname: "web"})
		if diff := cmp.Diff(want, got.GetPortMappings(), protocmp.Transform()); diff != "" {
			t.Errorf("with host network %t (-want +got):\n%s", pod.Spec.HostNetwork, diff)
		}
	}
}

func TestNamespaceOptions(t *testing.T) {
	const pod, node, container = runtimeapi.NamespaceMode_POD, runtimeapi.NamespaceMode_NODE, runtimeapi.NamespaceMode_CONTAINER
	for name, c := range map[string]struct {
		spec              v1.PodSpec
		network, pid, ipc runtimeapi.NamespaceMode
	}{
		"default":               {v1.PodSpec{}, pod, container, pod},
		"host network":          {v1.PodSpec{HostNetwork: true}, node, container, pod},
		"host pid":              {v1.PodSpec{HostPID: true}, pod, node, pod},
		"host ipc":              {v1.PodSpec{HostIPC: true}, pod, container, node},
		"shared processes":      {v1.PodSpec{ShareProcessNamespace: ptr.To(true)}, pod, pod, pod},
		"processes not shared":  {v1.PodSpec{ShareProcessNamespace: ptr.To(false)}, pod, container, pod},
		"host pid beats shared": {v1.PodSpec{HostPID: true, ShareProcessNamespace: ptr.To(true)}, pod, node, pod},
	} {
		want := &runtimeapi.NamespaceOption{Network: c.network, Pid: c.pid, Ipc: c.ipc, UsernsOptions: nodesUsers()}
		got, err := namespaceOptions(&v1.Pod{Spec: c.spec}, nil)
		if err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if diff := cmp.Diff(want, got, protocmp.Transform()); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}

func TestSandboxSecurityContext(t *testing.T) {
	pod := webPod()
	pod.Spec.SecurityContext = &v1.PodSecurityContext{
		RunAsUser: ptr.To[int64](1000), RunAsGroup: ptr.To[int64](2000), FSGroup: ptr.To[int64](3000), SupplementalGroups: []int64{4000},
		SeccompProfile: &v1.SeccompProfile{Type: v1.SeccompProfileTypeUnconfined},
	}
	pod.Spec.InitContainers = []v1.Container{{SecurityContext: &v1.SecurityContext{Privileged: ptr.To(true)}}}
	want := &runtimeapi.LinuxSandboxSecurityContext{
		NamespaceOptions: &runtimeapi.NamespaceOption{Pid: runtimeapi.NamespaceMode_CONTAINER, UsernsOptions: nodesUsers()},
		RunAsUser:        &runtimeapi.Int64Value{Value: 1000}, RunAsGroup: &runtimeapi.Int64Value{Value: 2000},
		SupplementalGroups: []int64{3000, 4000, 5000},
		Privileged:         true,
		Seccomp:            &runtimeapi.SecurityProfile{ProfileType: runtimeapi.SecurityProfile_RuntimeDefault},
	}
	// A volume's group that the pod has already isn't repeated.
	got, err := sandboxSecurityContext(&SandboxInput{Pod: pod, ExtraGroups: []int64{4000, 5000}})
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, got, protocmp.Transform()); diff != "" {
		t.Errorf("sandboxSecurityContext (-want +got):\n%s", diff)
	}
	pod.Spec.SecurityContext.RunAsUser = nil
	if got, err = sandboxSecurityContext(&SandboxInput{Pod: pod}); err != nil || got.GetRunAsGroup() != nil {
		t.Errorf("run_as_group %v, error %v; want none without a user, which the CRI forbids", got.GetRunAsGroup(), err)
	}
}

// Runtimes know sysctls by their names with dots only.
func TestSysctlNames(t *testing.T) {
	for name, want := range map[string]string{
		"net.ipv4.tcp_syncookies":          "net.ipv4.tcp_syncookies",
		"net/ipv4/tcp_syncookies":          "net.ipv4.tcp_syncookies",
		"net/ipv4/conf/eth0.100/rp_filter": "net.ipv4.conf.eth0/100.rp_filter",
		"net.ipv4.conf.eth0/100.rp_filter": "net.ipv4.conf.eth0/100.rp_filter",
		"kernel":                           "kernel",
	} {
		pod := webPod()
		pod.Spec.SecurityContext = &v1.PodSecurityContext{Sysctls: []v1.Sysctl{{Name: name, Value: "1"}}}
		got := sandboxOf(t, SandboxInput{Pod: pod}).GetLinux().GetSysctls()
		if len(got) != 1 || got[want] != "1" {
			t.Errorf("%s becomes %v; want %s", name, got, want)
		}
	}
}
