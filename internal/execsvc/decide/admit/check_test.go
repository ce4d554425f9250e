package admit

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
	"k8s.io/utils/ptr"

	"github.com/podstream/podstream/internal/execsvc/decide/declared"
	"github.com/podstream/podstream/internal/execsvc/pod/events"
)

// able is a node that has all features and unlimited resources.
func able() Node {
	return Node{
		AppArmor: true,
		Runtime: Runtime{
			SupplementalGroupsPolicy: true, ImageVolumes: true,
			Handlers: map[string]Handler{"": {UserNamespaces: true, RecursiveReadOnlyMounts: true}, "kata": {}},
		},
		Declared: declares(),
	}
}

// declares returns all features that a node can declare, but for these.
func declares(but ...string) declared.Features {
	rules, err := declared.New("v1.37.2", func(gate string) bool { return !slices.Contains(but, gate) })
	if err != nil {
		panic(err)
	}
	return rules.Of(&runtimeapi.RuntimeFeatures{UserNamespacesHostNetwork: true, MountOptions: true})
}

// fullPod is a pod with defaults that uses all supported features.
func fullPod() *v1.Pod {
	list := v1.ResourceList{"cpu": resource.MustParse("1"), "memory": resource.MustParse("1Gi")}
	selinux, local := &v1.SELinuxOptions{Level: "s0"}, ptr.To("p")
	seccomp := &v1.SeccompProfile{Type: v1.SeccompProfileTypeLocalhost, LocalhostProfile: local}
	apparmor := &v1.AppArmorProfile{Type: v1.AppArmorProfileTypeLocalhost, LocalhostProfile: local}
	return &v1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: "default", Name: "web", UID: "0123", Labels: map[string]string{v1.LabelOSStable: "linux"},
			Annotations: map[string]string{"container.apparmor.security.beta.kubernetes.io/c": "localhost/mine"},
		},
		Spec: v1.PodSpec{
			RestartPolicy: v1.RestartPolicyAlways, DNSPolicy: v1.DNSClusterFirstWithHostNet, SchedulerName: "default-scheduler",
			TerminationGracePeriodSeconds: ptr.To[int64](30), EnableServiceLinks: ptr.To(true), HostUsers: ptr.To(false), HostNetwork: true,
			OS: &v1.PodOS{Name: v1.Linux}, RuntimeClassName: ptr.To(""), Resources: &v1.ResourceRequirements{Limits: list},
			DNSConfig: &v1.PodDNSConfig{Searches: []string{"a"}}, HostAliases: []v1.HostAlias{{}}, SetHostnameAsFQDN: ptr.To(true),
			Subdomain: "sub", TopologySpreadConstraints: []v1.TopologySpreadConstraint{{}}, NodeSelector: map[string]string{"a": "b"},
			SecurityContext: &v1.PodSecurityContext{
				RunAsUser: ptr.To[int64](1), Sysctls: []v1.Sysctl{{Name: "kernel.shm_rmid_forced", Value: "1"}}, SELinuxOptions: selinux,
				SeccompProfile: seccomp, AppArmorProfile: apparmor, SupplementalGroupsPolicy: ptr.To(v1.SupplementalGroupsPolicyStrict),
			},
			Tolerations: []v1.Toleration{{Operator: v1.TolerationOpExists, Effect: v1.TaintEffectNoExecute}},
			Volumes: []v1.Volume{
				{Name: "e", VolumeSource: v1.VolumeSource{EmptyDir: &v1.EmptyDirVolumeSource{}}},
				{Name: "m", VolumeSource: v1.VolumeSource{EmptyDir: &v1.EmptyDirVolumeSource{
					Medium: v1.StorageMediumMemory, SizeLimit: ptr.To(resource.MustParse("1Mi"))}}},
				{Name: "p", VolumeSource: v1.VolumeSource{EmptyDir: &v1.EmptyDirVolumeSource{Medium: "HugePages-2Mi"}}},
				{Name: "h", VolumeSource: v1.VolumeSource{HostPath: &v1.HostPathVolumeSource{Path: "/etc"}}},
				{Name: "c", VolumeSource: v1.VolumeSource{ConfigMap: &v1.ConfigMapVolumeSource{}}},
				{Name: "s", VolumeSource: v1.VolumeSource{Secret: &v1.SecretVolumeSource{}}},
				{Name: "d", VolumeSource: v1.VolumeSource{DownwardAPI: &v1.DownwardAPIVolumeSource{}}},
				{Name: "i", VolumeSource: v1.VolumeSource{Image: &v1.ImageVolumeSource{Reference: "i"}}},
				{Name: "x", VolumeSource: v1.VolumeSource{Projected: &v1.ProjectedVolumeSource{Sources: []v1.VolumeProjection{
					{Secret: &v1.SecretProjection{}}, {ConfigMap: &v1.ConfigMapProjection{}}, {DownwardAPI: &v1.DownwardAPIProjection{}},
					{ServiceAccountToken: &v1.ServiceAccountTokenProjection{}},
				}}}},
			},
			ActiveDeadlineSeconds: ptr.To[int64](100), ImagePullSecrets: []v1.LocalObjectReference{{Name: "registry"}},
			InitContainers: []v1.Container{{Name: "i", Image: "i", RestartPolicy: ptr.To(v1.ContainerRestartPolicyAlways)}},
			EphemeralContainers: []v1.EphemeralContainer{{
				EphemeralContainerCommon: v1.EphemeralContainerCommon{Name: "e", Image: "e"}, TargetContainerName: "c",
			}},
			Containers: []v1.Container{{
				Name: "c", Image: "c", Env: []v1.EnvVar{{Name: "A", ValueFrom: &v1.EnvVarSource{}}}, EnvFrom: []v1.EnvFromSource{{}},
				TerminationMessagePath: "/out", TerminationMessagePolicy: v1.TerminationMessageFallbackToLogsOnError,
				Lifecycle:     &v1.Lifecycle{PostStart: &v1.LifecycleHandler{}, PreStop: &v1.LifecycleHandler{}, StopSignal: ptr.To(v1.SIGTERM)},
				LivenessProbe: &v1.Probe{}, ReadinessProbe: &v1.Probe{}, StartupProbe: &v1.Probe{},
				RestartPolicy: ptr.To(v1.ContainerRestartPolicyNever), RestartPolicyRules: []v1.ContainerRestartRule{{}},
				VolumeMounts: []v1.VolumeMount{
					{Name: "h", MountPath: "/h", ReadOnly: true, RecursiveReadOnly: ptr.To(v1.RecursiveReadOnlyEnabled), SubPath: "a"},
					{Name: "h", MountPath: "/i", ReadOnly: true, RecursiveReadOnly: ptr.To(v1.RecursiveReadOnlyIfPossible), SubPathExpr: "a"},
					{Name: "e"}, {Name: "m"}, {Name: "p"}, {Name: "c"}, {Name: "s"}, {Name: "d"}, {Name: "i"}, {Name: "x"},
				},
				Resources: v1.ResourceRequirements{Limits: list.DeepCopy()},
				SecurityContext: &v1.SecurityContext{
					SeccompProfile: seccomp, AppArmorProfile: apparmor, SELinuxOptions: selinux, Privileged: ptr.To(true)},
			}},
		},
	}
}

// other is an admitted pod.
func other(uid string, spec v1.PodSpec) *v1.Pod {
	return &v1.Pod{ObjectMeta: metav1.ObjectMeta{Name: uid, UID: types.UID(uid)}, Spec: spec}
}

func TestCheckAdmitsSupportedFeatures(t *testing.T) {
	if diff := cmp.Diff(Verdict{}, Check(fullPod(), able(), nil)); diff != "" {
		t.Errorf("verdict (-want +got):\n%s", diff)
	}
}

// The zero Node admits a pod that needs no feature.
func TestCheckOfPlainPodWithZeroNode(t *testing.T) {
	pod := podOf("a", asks("cpu", "1000"))
	pod.Spec.NodeName, pod.Spec.NodeSelector = "n", map[string]string{"a": "b"}
	if diff := cmp.Diff(Verdict{}, Check(pod, Node{}, nil)); diff != "" {
		t.Errorf("verdict (-want +got):\n%s", diff)
	}
}

// A pod is rejected where the kubelet rejects it at admission. An admitted pod is not rejected; it gets no new sandbox
// or container.
func TestCheckRejectsWhatTheKubeletRejects(t *testing.T) {
	const label, name = "Failed to admit pod as the `kubernetes.io/os` label doesn't match node label", "Cannot enforce AppArmor: invalid empty AppArmor profile name"
	for what, c := range map[string]struct {
		node            func(*Node)
		pod             func(*v1.Pod)
		reason, message string
		// later are the scopes of the lacks of an admitted pod.
		later []Scope
	}{
		"AppArmor": {
			node:   func(n *Node) { n.AppArmor = false },
			reason: AppArmor, message: "Cannot enforce AppArmor: AppArmor is not enabled on the host", later: []Scope{OneContainer, OneContainer, OneContainer},
		},
		"a profile without a name": {
			pod:    func(p *v1.Pod) { p.Spec.Containers[0].SecurityContext.AppArmorProfile.LocalhostProfile = ptr.To(" ") },
			reason: AppArmor, message: name, later: []Scope{OneContainer, OneContainer, OneContainer},
		},
		"an annotated profile without a name": {
			pod:    func(p *v1.Pod) { p.Annotations["container.apparmor.security.beta.kubernetes.io/i"] = "localhost/" },
			reason: AppArmor, message: name, later: []Scope{OneContainer},
		},
		"groups": {
			node: func(n *Node) { n.Runtime.SupplementalGroupsPolicy = false }, reason: SupplementalGroupsPolicyNotSupported,
			message: "SupplementalGroupsPolicy=Strict is not supported in this node", later: []Scope{NewSandbox},
		},
		"a sysctl": {
			pod:    func(p *v1.Pod) { p.Spec.SecurityContext.Sysctls[0].Name = "vm.swappiness" },
			reason: SysctlForbidden, message: `forbidden sysctl: "vm.swappiness" not allowlisted`, later: []Scope{NewSandbox},
		},
		"another system": {
			pod: func(p *v1.Pod) { p.Spec.OS.Name = v1.Windows }, reason: PodOSNotSupported,
			message: "Failed to admit pod as the OS field doesn't match node OS",
		},
		"another system's label": {
			pod: func(p *v1.Pod) { p.Labels[v1.LabelOSStable] = "windows" }, reason: PodOSSelectorNodeLabelDoesNotMatch, message: label,
		},
	} {
		node, pod := able(), fullPod()
		if c.node != nil {
			c.node(&node)
		}
		if c.pod != nil {
			c.pod(pod)
		}
		got := Check(pod, node, nil)
		// An ephemeral container is added later, and is no reason to reject the pod.
		got.Lacks = slices.DeleteFunc(got.Lacks, func(l Lack) bool { return l.Container == "e" })
		wantRejection(t, what, got, c.reason, c.message, false)
		again := Check(pod, node, []*v1.Pod{pod})
		var later []Scope
		for _, l := range again.Lacks {
			later = append(later, l.Scope)
		}
		if diff := cmp.Diff(c.later, later); diff != "" || len(again.Rejected) > 0 {
			t.Errorf("%s: once it was admitted, it is rejected for %v and lacks (-want +got):\n%s", what, again.Rejected, diff)
		}
	}
}

// A pod is rejected only for the kubelet's own reasons.
func TestRejects(t *testing.T) {
	for _, reason := range []string{"OutOfcpu", "OutOfpods", "OutOfexample.com/gpu", NodeAffinity, AppArmor, Evicted, events.Evicted} {
		if !Rejects(reason) {
			t.Errorf("%s rejects no pod", reason)
		}
	}
	for _, reason := range []string{UnsupportedFeature, "", "Out", events.FailedMountVolume, "InvalidPod"} {
		if Rejects(reason) {
			t.Errorf("%q rejects a pod", reason)
		}
	}
}

func TestCheckIgnores(t *testing.T) {
	pod, node := fullPod(), able()
	node.Allocatable = v1.ResourceList{"example.com/fpga": resource.MustParse("1"), "hugepages-2Mi": resource.MustParse("1Gi")}
	limit := ptr.To(resource.MustParse("1Gi"))
	for _, medium := range []v1.StorageMedium{v1.StorageMediumDefault, v1.StorageMediumMemory, v1.StorageMediumHugePages} {
		source := v1.VolumeSource{EmptyDir: &v1.EmptyDirVolumeSource{Medium: medium, SizeLimit: limit}}
		pod.Spec.Volumes = append(pod.Spec.Volumes, v1.Volume{Name: "limited" + strings.ToLower(string(medium)), VolumeSource: source})
	}
	pod.Spec.Containers[0].Resources.Requests = v1.ResourceList{v1.ResourceEphemeralStorage: resource.MustParse("1Gi")}
	for _, name := range []v1.ResourceName{v1.ResourceEphemeralStorage, "hugepages-2Mi", "example.com/gpu", "example.com/fpga"} {
		pod.Spec.Containers[0].Resources.Limits[name] = resource.MustParse("1")
	}
	pod.Spec.Containers[0].Resources.Requests["example.com/gpu"] = resource.MustParse("1")
	// As with the kubelet on Linux, a pod may be for both systems.
	windows := &v1.WindowsSecurityContextOptions{}
	pod.Spec.SecurityContext.WindowsOptions, pod.Spec.Containers[0].SecurityContext.WindowsOptions = windows, windows
	want := []string{
		"spec.securityContext.windowsOptions",
		fmt.Sprintf("spec.volumes[%d].emptyDir.sizeLimit", len(pod.Spec.Volumes)-1), "spec.containers[0].resources.limits[example.com/gpu]",
		"spec.containers[0].resources.requests[example.com/gpu]", "spec.containers[0].securityContext.windowsOptions",
	}
	if diff := cmp.Diff(Verdict{Ignored: want}, Check(pod, node, nil)); diff != "" {
		t.Errorf("verdict (-want +got):\n%s", diff)
	}
}

// wantRejection checks that the pod is rejected for one of the kubelet's reasons, with a message that has that prefix.
func wantRejection(t *testing.T, name string, got Verdict, reason, message string, transient bool) {
	t.Helper()
	if !Rejects(reason) || len(got.Lacks) > 0 {
		t.Errorf("%s: it lacks %v, and %s is listed as a reason to reject a pod: %v", name, got.Lacks, reason, Rejects(reason))
	}
	if len(got.Rejected) != 1 || got.Rejected[0].Reason != reason || !strings.HasPrefix(got.Rejected[0].Message, message) {
		t.Errorf("%s: rejected for %v; want %s: %s", name, got.Rejected, reason, message)
		return
	}
	if got.Transient() != transient {
		t.Errorf("%s: Transient is %v", name, got.Transient())
	}
}
