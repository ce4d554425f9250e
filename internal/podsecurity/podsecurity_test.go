package podsecurity_test

import (
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/yaml"

	"github.com/podstream/podstream/internal/podsecurity"
)

// good is a pod that each level allows.
const good = `
metadata: {name: web, namespace: shop}
spec:
  securityContext: {runAsNonRoot: true, seccompProfile: {type: RuntimeDefault}}
  containers:
  - name: main
    image: nginx
    securityContext: {allowPrivilegeEscalation: false, capabilities: {drop: [ALL]}}
`

// TestCheck: each change of a good pod, and the levels that refuse it. The good pod is the control.
func TestCheck(t *testing.T) {
	const restricted, baseline, privileged = "restricted", "baseline", "privileged"
	for _, tc := range []struct {
		name    string
		change  func(*v1.PodSpec)
		refused string
		want    string
	}{
		{"nothing", func(*v1.PodSpec) {}, "", ""},
		{"a privileged container", func(s *v1.PodSpec) { s.Containers[0].SecurityContext.Privileged = ptr.To(true) }, "restricted baseline", "privileged"},
		{
			"a privileged init container", func(s *v1.PodSpec) {
				s.InitContainers = []v1.Container{{Name: "i", SecurityContext: &v1.SecurityContext{Privileged: ptr.To(true)}}}
			}, "restricted baseline", "privileged",
		},
		{"hostPath", func(s *v1.PodSpec) {
			s.Volumes = []v1.Volume{{Name: "v", VolumeSource: v1.VolumeSource{HostPath: &v1.HostPathVolumeSource{Path: "/"}}}}
		}, "restricted baseline", "hostPath"},
		{"hostNetwork", func(s *v1.PodSpec) { s.HostNetwork = true }, "restricted baseline", "host namespaces"},
		{"hostPID", func(s *v1.PodSpec) { s.HostPID = true }, "restricted baseline", "host namespaces"},
		{"hostIPC", func(s *v1.PodSpec) { s.HostIPC = true }, "restricted baseline", "host namespaces"},
		{"a host port", func(s *v1.PodSpec) { s.Containers[0].Ports = []v1.ContainerPort{{ContainerPort: 1, HostPort: 1}} }, "restricted baseline", "hostPort"},
		{"a capability", func(s *v1.PodSpec) { s.Containers[0].SecurityContext.Capabilities.Add = []v1.Capability{"SYS_ADMIN"} }, "restricted baseline", "capabilities"},
		{"a sysctl", func(s *v1.PodSpec) { s.SecurityContext.Sysctls = []v1.Sysctl{{Name: "kernel.core_pattern"}} }, "restricted baseline", "sysctls"},
		{"unmasked /proc", func(s *v1.PodSpec) { s.Containers[0].SecurityContext.ProcMount = ptr.To(v1.UnmaskedProcMount) }, "restricted baseline", "procMount"},
		{"without seccomp", func(s *v1.PodSpec) { s.SecurityContext.SeccompProfile.Type = v1.SeccompProfileTypeUnconfined }, "restricted baseline", "seccompProfile"},
		{"a probe of the host", func(s *v1.PodSpec) {
			s.Containers[0].LivenessProbe = &v1.Probe{ProbeHandler: v1.ProbeHandler{TCPSocket: &v1.TCPSocketAction{Host: "127.0.0.1"}}}
		}, "restricted baseline", "probe"},
		{"root", func(s *v1.PodSpec) { s.SecurityContext.RunAsNonRoot = nil }, "restricted", "runAsNonRoot"},
		{"all capabilities of the runtime", func(s *v1.PodSpec) { s.Containers[0].SecurityContext.Capabilities = nil }, "restricted", "capabilities"},
		{"set-uid programs", func(s *v1.PodSpec) { s.Containers[0].SecurityContext.AllowPrivilegeEscalation = nil }, "restricted", "allowPrivilegeEscalation"},
		{"another system", func(s *v1.PodSpec) { s.OS = &v1.PodOS{Name: v1.Windows} }, "restricted baseline", "spec.os.name"},
		{"this system", func(s *v1.PodSpec) { s.OS = &v1.PodOS{Name: v1.Linux} }, "", ""},
		{"a system class", func(s *v1.PodSpec) { s.PriorityClassName = "system-node-critical" }, "restricted baseline privileged", "spec.priorityClassName"},
		{"another class of the system", func(s *v1.PodSpec) { s.PriorityClassName = "system-x" }, "restricted baseline privileged", "spec.priorityClassName"},
		{"another class", func(s *v1.PodSpec) { s.PriorityClassName = "low" }, "", ""},
		{"a system priority", func(s *v1.PodSpec) { s.Priority = ptr.To[int32](2_000_000_000) }, "restricted baseline privileged", "spec.priority"},
		{"a priority", func(s *v1.PodSpec) { s.Priority = ptr.To[int32](1) }, "restricted baseline privileged", "spec.priority"},
		{"a low priority", func(s *v1.PodSpec) { s.Priority = ptr.To[int32](-1) }, "", ""},
	} {
		pod := &v1.Pod{}
		if err := yaml.UnmarshalStrict([]byte(good), pod); err != nil {
			t.Fatal(err)
		}
		tc.change(&pod.Spec)
		for _, level := range []string{restricted, baseline, privileged} {
			got := texts(podsecurity.Check(level, pod))
			if refused := strings.Contains(tc.refused, level); refused != (got != "") || refused && !strings.Contains(got, tc.want) {
				t.Errorf("%s at the level %s: %q; want refused %v, with %q", tc.name, level, got, refused, tc.want)
			}
		}
	}
}

// TestUnknownLevel: a level that isn't known allows nothing.
func TestUnknownLevel(t *testing.T) {
	for _, level := range []string{"", "Privileged", "none"} {
		if got := podsecurity.Check(level, &v1.Pod{}); len(got) == 0 {
			t.Errorf("the level %q allows a pod; want that it allows nothing", level)
		}
	}
}

// TestFields: a reason has the field, the container or the volume that it is about.
func TestFields(t *testing.T) {
	yes, no := ptr.To(true), ptr.To(false)
	host := v1.Volume{Name: "host", VolumeSource: v1.VolumeSource{HostPath: &v1.HostPathVolumeSource{Path: "/"}}}
	for _, tc := range []struct {
		change func(*v1.PodSpec)
		want   string
	}{
		{func(s *v1.PodSpec) { s.HostPID = true }, "spec.hostPID"},
		{func(s *v1.PodSpec) { s.HostNetwork, s.HostIPC = true, true }, "spec.hostNetwork"},
		{func(s *v1.PodSpec) {
			s.Volumes = []v1.Volume{{Name: "empty", VolumeSource: v1.VolumeSource{EmptyDir: &v1.EmptyDirVolumeSource{}}}, host}
		}, "spec.volumes[1]"},
		{func(s *v1.PodSpec) { s.SecurityContext.Sysctls = []v1.Sysctl{{Name: "kernel.core_pattern"}} }, "spec.securityContext"},
		{func(s *v1.PodSpec) { s.Containers[1].SecurityContext.Privileged = yes }, "spec.containers[1]"},
		{func(s *v1.PodSpec) { s.Containers[1].SecurityContext.RunAsNonRoot = no }, "spec.containers[1]"},
		{func(s *v1.PodSpec) { s.Containers[0].Ports = []v1.ContainerPort{{HostPort: 1}} }, "spec.containers[0]"},
		{func(s *v1.PodSpec) { s.InitContainers = []v1.Container{{Name: "i"}} }, "spec.initContainers[0]"},
		{func(s *v1.PodSpec) { s.PriorityClassName = "system-x" }, "spec.priorityClassName"},
		{func(s *v1.PodSpec) { s.Priority = ptr.To[int32](1) }, "spec.priority"},
		{func(s *v1.PodSpec) { s.OS = &v1.PodOS{Name: v1.Windows} }, "spec.os.name"},
	} {
		pod := &v1.Pod{}
		if err := yaml.UnmarshalStrict([]byte(good), pod); err != nil {
			t.Fatal(err)
		}
		pod.Spec.Containers = append(pod.Spec.Containers, *pod.Spec.Containers[0].DeepCopy())
		tc.change(&pod.Spec)
		got := podsecurity.Check("restricted", pod)
		if len(got) == 0 {
			t.Errorf("a pod with a mistake in %s is allowed", tc.want)
		}
		for _, r := range got {
			if r.Field != tc.want || !strings.HasPrefix(r.String(), tc.want+": ") {
				t.Errorf("%v; want the field %s", r, tc.want)
			}
		}
	}
	unknown := podsecurity.Check("restricted", &v1.Pod{Spec: v1.PodSpec{Containers: []v1.Container{{Name: "c"}}}})
	if len(unknown) == 0 || strings.Contains(texts(unknown), ": :") {
		t.Errorf("a pod without a security context has the reasons %v", unknown)
	}
}

func texts(reasons []podsecurity.Reason) string {
	var out []string
	for _, r := range reasons {
		out = append(out, r.String())
	}
	return strings.Join(out, "; ")
}
