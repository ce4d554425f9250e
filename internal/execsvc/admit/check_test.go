package admit

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
)

// able is a node that can do all, with no bounds.
func able() Node {
	return Node{
		AppArmor: true,
		Runtime: Runtime{
			SupplementalGroupsPolicy: true, UserNamespacesHostNetwork: true, ImageVolumes: true,
			Handlers: map[string]Handler{"": {UserNamespaces: true, RecursiveReadOnlyMounts: true}, "kata": {}},
		},
	}
}

// fullPod is a pod as it comes from a source, with its defaults, that uses all that is supported.
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
				},
				Resources: v1.ResourceRequirements{Limits: list.DeepCopy()},
				SecurityContext: &v1.SecurityContext{
					SeccompProfile: seccomp, AppArmorProfile: apparmor, SELinuxOptions: selinux, Privileged: ptr.To(true)},
			}},
		},
	}
}

// other is a pod that is there.
func other(uid string, spec v1.PodSpec) *v1.Pod {
	return &v1.Pod{ObjectMeta: metav1.ObjectMeta{Name: uid, UID: types.UID(uid)}, Spec: spec}
}

func TestCheckLetsThroughWhatIsSupported(t *testing.T) {
	if diff := cmp.Diff(Verdict{}, Check(fullPod(), able(), nil)); diff != "" {
		t.Errorf("verdict (-want +got):\n%s", diff)
	}
}

// Nothing is known of the zero Node: a pod that needs nothing of it is let through.
func TestCheckOfAPlainPodAgainstAnUnknownNode(t *testing.T) {
	pod := podOf("a", asks("cpu", "1000"))
	pod.Spec.NodeName, pod.Spec.NodeSelector = "n", map[string]string{"a": "b"}
	if diff := cmp.Diff(Verdict{}, Check(pod, Node{}, nil)); diff != "" {
		t.Errorf("verdict (-want +got):\n%s", diff)
	}
}

// What this version can't do is refused, each by its path, and nothing else is said of it.
func TestCheckRefusesWhatIsUnsupported(t *testing.T) {
	windows := &v1.WindowsSecurityContextOptions{}
	for path, change := range map[string]func(*v1.PodSpec){
		"spec.resourceClaims":   func(s *v1.PodSpec) { s.ResourceClaims = []v1.PodResourceClaim{{}} },
		"spec.resources.claims": func(s *v1.PodSpec) { s.Resources.Claims = []v1.ResourceClaim{{}} },
		"spec.runtimeClassName": func(s *v1.PodSpec) {
			s.RuntimeClassName, s.HostUsers, s.Containers[0].VolumeMounts = ptr.To("gvisor"), nil, nil
		},
		"spec.securityContext.windowsOptions": func(s *v1.PodSpec) { s.SecurityContext.WindowsOptions = windows },
		"spec.volumes[0].emptyDir.medium":     func(s *v1.PodSpec) { s.Volumes[0].EmptyDir.Medium = "Tape" },
		"spec.volumes[8].projected.sources[1].podCertificate": func(s *v1.PodSpec) {
			s.Volumes[8].Projected.Sources[1] = v1.VolumeProjection{PodCertificate: &v1.PodCertificateProjection{}}
		},
		"spec.ephemeralContainers[0].volumeDevices": func(s *v1.PodSpec) {
			s.EphemeralContainers[0].VolumeDevices = []v1.VolumeDevice{{}}
		},
		"spec.initContainers[0].volumeDevices": func(s *v1.PodSpec) {
			s.InitContainers[0].VolumeDevices = []v1.VolumeDevice{{}}
		},
		"spec.containers[0].volumeDevices": func(s *v1.PodSpec) { s.Containers[0].VolumeDevices = []v1.VolumeDevice{{}} },
		"spec.containers[0].volumeMounts[0].bindMountOptions": func(s *v1.PodSpec) {
			s.Containers[0].VolumeMounts[0].BindMountOptions = []string{"noexec"}
		},
		"spec.containers[0].resources.claims": func(s *v1.PodSpec) {
			s.Containers[0].Resources.Claims = []v1.ResourceClaim{{}}
		},
		"spec.containers[0].securityContext.windowsOptions": func(s *v1.PodSpec) {
			s.Containers[0].SecurityContext.WindowsOptions = windows
		},
	} {
		pod := fullPod()
		change(&pod.Spec)
		got := Check(pod, able(), nil)
		wantRefusal(t, path, got, UnsupportedFeature, path+": ", false)
		if len(got.Ignored) > 0 {
			t.Errorf("%s: ignored %v as well", path, got.Ignored)
		}
	}
}

func TestCheckNamesTheVolumesSource(t *testing.T) {
	for name, source := range map[string]v1.VolumeSource{
		"persistentVolumeClaim":     {PersistentVolumeClaim: &v1.PersistentVolumeClaimVolumeSource{}},
		"csi":                       {CSI: &v1.CSIVolumeSource{}},
		"ephemeral":                 {Ephemeral: &v1.EphemeralVolumeSource{}},
		"nfs":                       {NFS: &v1.NFSVolumeSource{}},
		"iscsi":                     {ISCSI: &v1.ISCSIVolumeSource{}},
		"awsElasticBlockStore":      {AWSElasticBlockStore: &v1.AWSElasticBlockStoreVolumeSource{}},
		"a volume without a source": {},
	} {
		pod := fullPod()
		pod.Spec.Volumes[1].VolumeSource = source
		wantRefusal(t, name, Check(pod, able(), nil), UnsupportedFeature, "spec.volumes[1]: "+name+" isn't supported yet", false)
	}
}

// What the node can't do is refused with the kubelet's reason, where it has one.
func TestCheckRefusesWhatTheNodeCantDo(t *testing.T) {
	for name, c := range map[string]struct {
		node            func(*Node)
		pod             func(*v1.Pod)
		reason, message string
	}{
		"AppArmor": {
			node:   func(n *Node) { n.AppArmor = false },
			reason: AppArmor, message: "Cannot enforce AppArmor: AppArmor is not enabled on the host",
		},
		"a profile without a name": {
			pod:    func(p *v1.Pod) { p.Spec.Containers[0].SecurityContext.AppArmorProfile.LocalhostProfile = ptr.To(" ") },
			reason: AppArmor, message: "Cannot enforce AppArmor: invalid empty AppArmor profile name",
		},
		"an annotated profile without a name": {
			pod:    func(p *v1.Pod) { p.Annotations["container.apparmor.security.beta.kubernetes.io/c"] = "localhost/" },
			reason: AppArmor, message: "Cannot enforce AppArmor: invalid empty AppArmor profile name",
		},
		"groups": {
			node: func(n *Node) { n.Runtime.SupplementalGroupsPolicy = false }, reason: SupplementalGroupsPolicyNotSupported,
			message: "SupplementalGroupsPolicy=Strict is not supported in this node",
		},
		"user namespaces": {
			node:   func(n *Node) { n.Runtime.Handlers[""] = Handler{RecursiveReadOnlyMounts: true} },
			reason: UnsupportedFeature, message: "spec.hostUsers: can't set `spec.hostUsers: false`, runtime does not support user namespaces",
		},
		"user namespaces of a runtime class": {
			pod: func(p *v1.Pod) {
				p.Spec.RuntimeClassName, p.Spec.Containers[0].VolumeMounts = ptr.To("kata"), nil
			},
			reason:  UnsupportedFeature,
			message: "spec.hostUsers: can't set `spec.hostUsers: false`, RuntimeClass handler \"kata\" does not support user namespaces",
		},
		"user namespaces in the node's network": {
			node:   func(n *Node) { n.Runtime.UserNamespacesHostNetwork = false },
			reason: UnsupportedFeature, message: "spec.hostUsers: the container runtime has no user namespaces in the node's network",
		},
		"recursive read-only mounts": {
			node:   func(n *Node) { n.Runtime.Handlers[""] = Handler{UserNamespaces: true} },
			reason: UnsupportedFeature,
			message: "spec.containers[0].volumeMounts[0].recursiveReadOnly: volume \"h\" requested recursive read-only mode, " +
				"but it is not supported by the runtime",
		},
		"image volumes": {
			node:   func(n *Node) { n.Runtime.ImageVolumes = false },
			reason: UnsupportedFeature, message: "spec.volumes[7].image: the container runtime can't mount images",
		},
		"another system": {
			pod: func(p *v1.Pod) { p.Spec.OS.Name = v1.Windows }, reason: PodOSNotSupported,
			message: "Failed to admit pod as the OS field doesn't match node OS",
		},
		"another system's label": {
			pod:    func(p *v1.Pod) { p.Labels[v1.LabelOSStable] = "windows" },
			reason: PodOSSelectorNodeLabelDoesNotMatch, message: "Failed to admit pod as the `kubernetes.io/os` label doesn't match node label",
		},
		"a UID that leads elsewhere": {
			pod: func(p *v1.Pod) { p.UID = "../../etc" }, reason: InvalidPod, message: "metadata.uid: ",
		},
	} {
		node, pod := able(), fullPod()
		if c.node != nil {
			c.node(&node)
		}
		if c.pod != nil {
			c.pod(pod)
		}
		wantRefusal(t, name, Check(pod, node, nil), c.reason, c.message, false)
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
	want := []string{
		fmt.Sprintf("spec.volumes[%d].emptyDir.sizeLimit", len(pod.Spec.Volumes)-1), "spec.containers[0].resources.limits[example.com/gpu]",
	}
	if diff := cmp.Diff(Verdict{Ignored: want}, Check(pod, node, nil)); diff != "" {
		t.Errorf("verdict (-want +got):\n%s", diff)
	}
}

// All that is unsupported is named at once, in the order of the fields, and room isn't asked for any more.
func TestCheckNamesAllThatIsUnsupported(t *testing.T) {
	pod := fullPod()
	pod.Spec.ResourceClaims = []v1.PodResourceClaim{{}}
	pod.Spec.Volumes[0].VolumeSource = v1.VolumeSource{NFS: &v1.NFSVolumeSource{}}
	pod.Spec.Containers[0].VolumeDevices = []v1.VolumeDevice{{}}
	node := able()
	node.Allocatable = v1.ResourceList{"cpu": resource.MustParse("0")}
	got := Check(pod, node, nil)
	var paths []string
	for _, r := range got.Refused {
		path, _, _ := strings.Cut(r.Message, ":")
		paths = append(paths, path)
	}
	if diff := cmp.Diff([]string{"spec.resourceClaims", "spec.volumes[0]", "spec.containers[0].volumeDevices"}, paths); diff != "" {
		t.Errorf("refused for (-want +got):\n%s", diff)
	}
	if got.MayPass() {
		t.Error("it is said to pass when others end")
	}
}

// wantRefusal checks that the pod is refused for one reason, with a message that begins so.
func wantRefusal(t *testing.T, name string, got Verdict, reason, message string, passing bool) {
	t.Helper()
	if len(got.Refused) != 1 || got.Refused[0].Reason != reason || !strings.HasPrefix(got.Refused[0].Message, message) {
		t.Errorf("%s: refused for %v; want %s: %s", name, got.Refused, reason, message)
		return
	}
	if got.MayPass() != passing {
		t.Errorf("%s: MayPass is %v", name, got.MayPass())
	}
}
