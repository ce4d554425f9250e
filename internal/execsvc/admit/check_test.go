package admit

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
)

// plainPod is a pod as it comes from a source, with its defaults, that uses all that is supported.
func plainPod() *v1.Pod {
	return &v1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "web", UID: "0123"},
		Spec: v1.PodSpec{
			RestartPolicy: v1.RestartPolicyAlways, DNSPolicy: v1.DNSClusterFirst, SchedulerName: "default-scheduler",
			TerminationGracePeriodSeconds: ptr.To[int64](30), EnableServiceLinks: ptr.To(true), HostUsers: ptr.To(true),
			OS:              &v1.PodOS{Name: v1.Linux},
			SecurityContext: &v1.PodSecurityContext{RunAsUser: ptr.To[int64](1), Sysctls: []v1.Sysctl{{Name: "net.ipv4.tcp_syncookies", Value: "1"}}},
			Tolerations:     []v1.Toleration{{Operator: v1.TolerationOpExists, Effect: v1.TaintEffectNoExecute}},
			Volumes: []v1.Volume{
				{Name: "e", VolumeSource: v1.VolumeSource{EmptyDir: &v1.EmptyDirVolumeSource{}}},
				{Name: "m", VolumeSource: v1.VolumeSource{EmptyDir: &v1.EmptyDirVolumeSource{Medium: v1.StorageMediumMemory, SizeLimit: ptr.To(resource.MustParse("1Mi"))}}},
				{Name: "h", VolumeSource: v1.VolumeSource{HostPath: &v1.HostPathVolumeSource{Path: "/etc"}}},
			},
			ActiveDeadlineSeconds: ptr.To[int64](100), ImagePullSecrets: []v1.LocalObjectReference{{Name: "registry"}},
			InitContainers: []v1.Container{{Name: "i", Image: "i", RestartPolicy: ptr.To(v1.ContainerRestartPolicyAlways)}},
			EphemeralContainers: []v1.EphemeralContainer{{
				EphemeralContainerCommon: v1.EphemeralContainerCommon{Name: "e", Image: "e"}, TargetContainerName: "c",
			}},
			Containers: []v1.Container{{
				Name: "c", Image: "c", Env: []v1.EnvVar{{Name: "A", Value: "b"}},
				TerminationMessagePath: "/out", TerminationMessagePolicy: v1.TerminationMessageFallbackToLogsOnError,
				Lifecycle:     &v1.Lifecycle{PostStart: &v1.LifecycleHandler{}, PreStop: &v1.LifecycleHandler{}, StopSignal: ptr.To(v1.SIGTERM)},
				LivenessProbe: &v1.Probe{}, ReadinessProbe: &v1.Probe{}, StartupProbe: &v1.Probe{},
				RestartPolicy: ptr.To(v1.ContainerRestartPolicyNever), RestartPolicyRules: []v1.ContainerRestartRule{{}},
				VolumeMounts: []v1.VolumeMount{{Name: "h", MountPath: "/h", ReadOnly: true, RecursiveReadOnly: ptr.To(v1.RecursiveReadOnlyIfPossible)}},
				Resources:    v1.ResourceRequirements{Limits: v1.ResourceList{"cpu": resource.MustParse("1"), "memory": resource.MustParse("1Gi")}},
				SecurityContext: &v1.SecurityContext{
					SeccompProfile: &v1.SeccompProfile{Type: v1.SeccompProfileTypeRuntimeDefault}, Privileged: ptr.To(true)},
			}},
		},
	}
}

func TestCheckLetsAPlainPodThrough(t *testing.T) {
	if diff := cmp.Diff(Verdict{}, Check(plainPod())); diff != "" {
		t.Errorf("verdict (-want +got):\n%s", diff)
	}
}

func TestCheckRefuses(t *testing.T) {
	local := "p"
	selinux, windows := &v1.SELinuxOptions{Level: "s0"}, &v1.WindowsSecurityContextOptions{}
	for path, change := range map[string]func(*v1.PodSpec){
		"spec.ephemeralContainers[0].envFrom": func(s *v1.PodSpec) { s.EphemeralContainers[0].EnvFrom = []v1.EnvFromSource{{}} },
		"spec.hostUsers":                      func(s *v1.PodSpec) { s.HostUsers = ptr.To(false) },
		"spec.os":                             func(s *v1.PodSpec) { s.OS.Name = v1.Windows },
		"spec.resourceClaims":                 func(s *v1.PodSpec) { s.ResourceClaims = []v1.PodResourceClaim{{}} },
		"spec.resources": func(s *v1.PodSpec) {
			s.Resources = &v1.ResourceRequirements{Limits: v1.ResourceList{"cpu": resource.MustParse("1")}}
		},
		"spec.runtimeClassName":               func(s *v1.PodSpec) { s.RuntimeClassName = ptr.To("kata") },
		"spec.securityContext.seLinuxOptions": func(s *v1.PodSpec) { s.SecurityContext.SELinuxOptions = selinux },
		"spec.securityContext.windowsOptions": func(s *v1.PodSpec) { s.SecurityContext.WindowsOptions = windows },
		"spec.securityContext.seccompProfile.localhostProfile": func(s *v1.PodSpec) {
			s.SecurityContext.SeccompProfile = &v1.SeccompProfile{Type: v1.SeccompProfileTypeLocalhost, LocalhostProfile: &local}
		},
		"spec.securityContext.appArmorProfile.localhostProfile": func(s *v1.PodSpec) {
			s.SecurityContext.AppArmorProfile = &v1.AppArmorProfile{Type: v1.AppArmorProfileTypeLocalhost, LocalhostProfile: &local}
		},
		"spec.securityContext.supplementalGroupsPolicy": func(s *v1.PodSpec) {
			s.SecurityContext.SupplementalGroupsPolicy = ptr.To(v1.SupplementalGroupsPolicyStrict)
		},
		"spec.volumes[0].emptyDir.medium": func(s *v1.PodSpec) { s.Volumes[0].EmptyDir.Medium = v1.StorageMediumHugePages },
		"spec.volumes[1]": func(s *v1.PodSpec) {
			s.Volumes[1].VolumeSource = v1.VolumeSource{Secret: &v1.SecretVolumeSource{}}
		},
		"spec.volumes[2]":                                     func(s *v1.PodSpec) { s.Volumes[2].VolumeSource = v1.VolumeSource{} },
		"spec.containers[0].envFrom":                          func(s *v1.PodSpec) { s.Containers[0].EnvFrom = []v1.EnvFromSource{{}} },
		"spec.containers[0].env[0].valueFrom":                 func(s *v1.PodSpec) { s.Containers[0].Env[0].ValueFrom = &v1.EnvVarSource{} },
		"spec.containers[0].volumeDevices":                    func(s *v1.PodSpec) { s.Containers[0].VolumeDevices = []v1.VolumeDevice{{}} },
		"spec.containers[0].volumeMounts[0].subPath":          func(s *v1.PodSpec) { s.Containers[0].VolumeMounts[0].SubPath = "a" },
		"spec.containers[0].volumeMounts[0].subPathExpr":      func(s *v1.PodSpec) { s.Containers[0].VolumeMounts[0].SubPathExpr = "a" },
		"spec.containers[0].volumeMounts[0].bindMountOptions": func(s *v1.PodSpec) { s.Containers[0].VolumeMounts[0].BindMountOptions = []string{"noexec"} },
		"spec.containers[0].volumeMounts[0].recursiveReadOnly": func(s *v1.PodSpec) {
			s.Containers[0].VolumeMounts[0].RecursiveReadOnly = ptr.To(v1.RecursiveReadOnlyEnabled)
		},
		"spec.containers[0].resources.claims": func(s *v1.PodSpec) { s.Containers[0].Resources.Claims = []v1.ResourceClaim{{}} },
		"spec.containers[0].resources.limits[hugepages-2Mi]": func(s *v1.PodSpec) {
			s.Containers[0].Resources.Limits["hugepages-2Mi"] = resource.MustParse("2Mi")
		},
		"spec.containers[0].resources.limits[example.com/gpu]": func(s *v1.PodSpec) {
			s.Containers[0].Resources.Limits["example.com/gpu"] = resource.MustParse("1")
		},
		"spec.containers[0].securityContext.seLinuxOptions": func(s *v1.PodSpec) { s.Containers[0].SecurityContext.SELinuxOptions = selinux },
		"spec.containers[0].securityContext.windowsOptions": func(s *v1.PodSpec) { s.Containers[0].SecurityContext.WindowsOptions = windows },
		"spec.containers[0].securityContext.seccompProfile.localhostProfile": func(s *v1.PodSpec) {
			s.Containers[0].SecurityContext.SeccompProfile = &v1.SeccompProfile{Type: v1.SeccompProfileTypeLocalhost, LocalhostProfile: &local}
		},
		"spec.containers[0].securityContext.appArmorProfile.localhostProfile": func(s *v1.PodSpec) {
			s.Containers[0].SecurityContext.AppArmorProfile = &v1.AppArmorProfile{Type: v1.AppArmorProfileTypeLocalhost, LocalhostProfile: &local}
		},
	} {
		pod := plainPod()
		change(&pod.Spec)
		got := Check(pod)
		if len(got.Refused) != 1 || got.Refused[0].Reason != "UnsupportedFeature" || !strings.HasPrefix(got.Refused[0].Message, path+": ") {
			t.Errorf("%s: refused for %v", path, got.Refused)
		}
		if len(got.Ignored) > 0 {
			t.Errorf("%s: ignored %v as well", path, got.Ignored)
		}
	}
}

func TestCheckNamesTheVolumeType(t *testing.T) {
	pod := plainPod()
	pod.Spec.Volumes[0].VolumeSource = v1.VolumeSource{ConfigMap: &v1.ConfigMapVolumeSource{}}
	want := []Refusal{{Reason: UnsupportedFeature, Message: "spec.volumes[0]: configMap isn't supported yet"}}
	if diff := cmp.Diff(want, Check(pod).Refused); diff != "" {
		t.Errorf("refused (-want +got):\n%s", diff)
	}
}

func TestCheckForbidsSysctlsBeyondThePod(t *testing.T) {
	for name, c := range map[string]struct {
		sysctl string
		spec   v1.PodSpec
		ok     bool
	}{
		"safe":                  {sysctl: "net.ipv4.ip_unprivileged_port_start", ok: true},
		"safe, with slashes":    {sysctl: "net/ipv4/tcp_syncookies", ok: true},
		"not safe":              {sysctl: "kernel.msgmax"},
		"the node's network":    {sysctl: "net.ipv4.tcp_syncookies", spec: v1.PodSpec{HostNetwork: true}},
		"the node's ipc":        {sysctl: "kernel.shm_rmid_forced", spec: v1.PodSpec{HostIPC: true}},
		"ipc with host network": {sysctl: "kernel.shm_rmid_forced", spec: v1.PodSpec{HostNetwork: true}, ok: true},
	} {
		pod := &v1.Pod{ObjectMeta: metav1.ObjectMeta{UID: "u"}, Spec: c.spec}
		pod.Spec.SecurityContext = &v1.PodSecurityContext{Sysctls: []v1.Sysctl{{Name: c.sysctl}}}
		got := Check(pod).Refused
		switch {
		case c.ok && len(got) > 0:
			t.Errorf("%s: refused for %v", name, got)
		case !c.ok && (len(got) != 1 || got[0].Reason != "SysctlForbidden" || !strings.Contains(got[0].Message, c.sysctl)):
			t.Errorf("%s: refused for %v", name, got)
		}
	}
}

func TestCheckRefusesAUIDThatLeadsElsewhere(t *testing.T) {
	pod := plainPod()
	pod.UID = "../../etc"
	if got := Check(pod).Refused; len(got) != 1 || got[0].Reason != InvalidPod {
		t.Errorf("refused for %v", got)
	}
}

func TestCheckIgnores(t *testing.T) {
	pod := plainPod()
	s := &pod.Spec
	s.Affinity, s.Subdomain = &v1.Affinity{}, "sub"
	s.DNSConfig, s.DNSPolicy = &v1.PodDNSConfig{Searches: []string{"a"}}, v1.DNSClusterFirstWithHostNet
	s.HostAliases = []v1.HostAlias{{}}
	s.NodeSelector, s.SetHostnameAsFQDN = map[string]string{"a": "b"}, ptr.To(true)
	s.TopologySpreadConstraints = []v1.TopologySpreadConstraint{{}}
	s.Volumes[0].EmptyDir.SizeLimit = ptr.To(resource.MustParse("1Gi"))
	s.Containers[0].Resources.Limits[v1.ResourceEphemeralStorage] = resource.MustParse("1Gi")
	want := []string{
		"spec.affinity", "spec.dnsConfig", "spec.dnsPolicy", "spec.hostAliases",
		"spec.nodeSelector", "spec.setHostnameAsFQDN", "spec.subdomain", "spec.topologySpreadConstraints",
		"spec.volumes[0].emptyDir.sizeLimit",
		"spec.containers[0].resources.limits[ephemeral-storage]",
	}
	if diff := cmp.Diff(Verdict{Ignored: want}, Check(pod)); diff != "" {
		t.Errorf("verdict (-want +got):\n%s", diff)
	}
}

func TestCheckReadsAppArmorAnnotations(t *testing.T) {
	pod := plainPod()
	pod.Annotations = map[string]string{
		"container.apparmor.security.beta.kubernetes.io/c": "localhost/mine",
		"container.apparmor.security.beta.kubernetes.io/i": "unconfined",
	}
	want := Verdict{
		Refused: []Refusal{{UnsupportedFeature, "metadata.annotations[container.apparmor.security.beta.kubernetes.io/c]: isn't supported yet"}},
		Ignored: []string{"metadata.annotations[container.apparmor.security.beta.kubernetes.io/i]"},
	}
	if diff := cmp.Diff(want, Check(pod)); diff != "" {
		t.Errorf("verdict (-want +got):\n%s", diff)
	}
}
