package admit

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/utils/ptr"

	"github.com/podstream/podstream/internal/execsvc/pod/events"
)

// A pod that needs an unsupported feature is admitted, with a Lack that has the field's path and the kubelet's reason.
func TestCheckReturnsLacks(t *testing.T) {
	for path, c := range map[string]struct {
		scope     Scope
		container string
		reason    string
		change    func(*v1.PodSpec)
	}{
		"spec.resourceClaims": {
			reason: events.FailedPrepareResources, change: func(s *v1.PodSpec) { s.ResourceClaims = []v1.PodResourceClaim{{}} },
		},
		"spec.resources.claims": {
			reason: events.FailedPrepareResources, change: func(s *v1.PodSpec) { s.Resources.Claims = []v1.ResourceClaim{{}} },
		},
		"spec.runtimeClassName": {scope: NewSandbox, reason: events.FailedCreatePodSandbox, change: func(s *v1.PodSpec) {
			s.RuntimeClassName, s.HostUsers, s.Containers[0].VolumeMounts = ptr.To("gvisor"), nil, nil
		}},
		"spec.volumes[0].emptyDir.medium": {
			reason: events.FailedMountVolume, change: func(s *v1.PodSpec) { s.Volumes[0].EmptyDir.Medium = "Tape" },
		},
		"spec.volumes[8].projected.sources[1].podCertificate": {reason: events.FailedMountVolume, change: func(s *v1.PodSpec) {
			s.Volumes[8].Projected.Sources[1] = v1.VolumeProjection{PodCertificate: &v1.PodCertificateProjection{}}
		}},
		"spec.ephemeralContainers[0].volumeDevices[0]": {scope: OneContainer, container: "e", reason: events.FailedToStart, change: func(s *v1.PodSpec) {
			s.EphemeralContainers[0].VolumeDevices = []v1.VolumeDevice{{}}
		}},
		"spec.initContainers[0].volumeDevices[0]": {scope: OneContainer, container: "i", reason: events.FailedToStart, change: func(s *v1.PodSpec) {
			s.InitContainers[0].VolumeDevices = []v1.VolumeDevice{{}}
		}},
		"spec.containers[0].volumeDevices[0]": {scope: OneContainer, container: "c", reason: events.FailedToStart, change: func(s *v1.PodSpec) {
			s.Containers[0].VolumeDevices = []v1.VolumeDevice{{}}
		}},
		"spec.containers[0].volumeMounts[0].bindMountOptions": {
			scope: OneContainer, container: "c", reason: events.FailedToStart, change: func(s *v1.PodSpec) {
				s.Containers[0].VolumeMounts[0].BindMountOptions = []string{"noexec"}
			},
		},
		"spec.containers[0].resources.claims": {scope: OneContainer, container: "c", reason: events.FailedToStart, change: func(s *v1.PodSpec) {
			s.Containers[0].Resources.Claims = []v1.ResourceClaim{{}}
		}},
	} {
		pod := fullPod()
		c.change(&pod.Spec)
		wantLack(t, path, Check(pod, able(), nil), Lack{Scope: c.scope, Container: c.container, Reason: c.reason, Message: path + ": "})
	}
}

func TestCheckNamesTheVolumesSource(t *testing.T) {
	for field, source := range map[string]v1.VolumeSource{
		".cephfs": {CephFS: &v1.CephFSVolumeSource{}},
		".fc":     {FC: &v1.FCVolumeSource{}},
		".rbd":    {RBD: &v1.RBDVolumeSource{}},
		"":        {},
	} {
		pod := fullPod()
		pod.Spec.Volumes[1].VolumeSource = source
		lack := Lack{Reason: events.FailedMountVolume, Message: "spec.volumes[1]" + field + `: volume "m" can't be mounted: `}
		wantLack(t, field, Check(pod, able(), nil), lack)
		// As in the kubelet, nothing waits for a volume that no container uses. If only an ephemeral container uses
		// it, only that one waits.
		mounts := pod.Spec.Containers[0].VolumeMounts
		pod.Spec.Containers[0].VolumeMounts = slices.DeleteFunc(mounts, func(m v1.VolumeMount) bool { return m.Name == "m" })
		if diff := cmp.Diff(Verdict{Ignored: []string{"spec.volumes[1]" + field}}, Check(pod, able(), nil)); diff != "" {
			t.Errorf("%s, unused (-want +got):\n%s", field, diff)
		}
		pod.Spec.EphemeralContainers[0].VolumeMounts = []v1.VolumeMount{{Name: "m"}}
		lack.Scope, lack.Container, lack.Reason = OneContainer, "e", events.FailedToStart
		wantLack(t, field, Check(pod, able(), nil), lack)
	}
}

// Package storage sets up claims, generic ephemeral volumes and inline CSI volumes, also those of in-tree plugins that moved to CSI.
func TestPersistentVolumesAreNoLack(t *testing.T) {
	for field, source := range map[string]v1.VolumeSource{
		"persistentVolumeClaim": {PersistentVolumeClaim: &v1.PersistentVolumeClaimVolumeSource{}},
		"csi":                   {CSI: &v1.CSIVolumeSource{}},
		"ephemeral":             {Ephemeral: &v1.EphemeralVolumeSource{}},
		"awsElasticBlockStore":  {AWSElasticBlockStore: &v1.AWSElasticBlockStoreVolumeSource{}},
		"azureDisk":             {AzureDisk: &v1.AzureDiskVolumeSource{}},
		"azureFile":             {AzureFile: &v1.AzureFileVolumeSource{}},
		"cinder":                {Cinder: &v1.CinderVolumeSource{}},
		"gcePersistentDisk":     {GCEPersistentDisk: &v1.GCEPersistentDiskVolumeSource{}},
		"portworxVolume":        {PortworxVolume: &v1.PortworxVolumeSource{}},
		"vsphereVolume":         {VsphereVolume: &v1.VsphereVirtualDiskVolumeSource{}},
	} {
		pod := fullPod()
		pod.Spec.Volumes[1].VolumeSource = source
		if diff := cmp.Diff(Verdict{}, Check(pod, able(), nil)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", field, diff)
		}
	}
}

// A container with several lacks waits for the first one. A pod that has a sandbox doesn't wait for the lacks of a new
// one.
func TestScopesOfLacks(t *testing.T) {
	v := Verdict{Lacks: []Lack{
		{Scope: WholePod, Message: "pod"}, {Scope: NewSandbox, Message: "sandbox"}, {Scope: OneContainer, Container: "a", Message: "first"},
		{Scope: OneContainer, Container: "a", Message: "second"}, {Scope: OneContainer, Container: "b", Message: "other"},
	}}
	if diff := cmp.Diff(v.Lacks[:2], v.Waiting(false)); diff != "" {
		t.Errorf("without a sandbox (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(v.Lacks[:1], v.Waiting(true)); diff != "" {
		t.Errorf("with a sandbox (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(map[string]string{"a": "first", "b": "other"}, v.Containers()); diff != "" {
		t.Errorf("containers (-want +got):\n%s", diff)
	}
}

// If the runtime lacks a feature, the pod or one container waits.
func TestCheckReturnsLacksOfRuntime(t *testing.T) {
	sandbox := Lack{Scope: NewSandbox, Reason: events.FailedCreatePodSandbox}
	for message, c := range map[string]struct {
		node func(*Node)
		pod  func(*v1.Pod)
		want Lack
	}{
		"spec.hostUsers: can't set `spec.hostUsers: false`, runtime does not support user namespaces": {
			node: func(n *Node) { n.Runtime.Handlers[""] = Handler{RecursiveReadOnlyMounts: true} }, want: sandbox,
		},
		"spec.hostUsers: can't set `spec.hostUsers: false`, RuntimeClass handler \"kata\" does not support user namespaces": {
			pod: func(p *v1.Pod) { p.Spec.RuntimeClassName, p.Spec.Containers[0].VolumeMounts = ptr.To("kata"), nil }, want: sandbox,
		},
		"spec: Pod requires node features that are not available: UserNamespacesHostNetworkSupport; the container runtime": {
			node: func(n *Node) { n.Declared, n.Runtime.Silent = declares("UserNamespacesHostNetworkSupport"), true }, want: sandbox,
		},
		"spec.containers[0].volumeMounts[0].recursiveReadOnly: volume \"h\" requested recursive read-only mode, but it is not supported": {
			node: func(n *Node) { n.Runtime.Handlers[""] = Handler{UserNamespaces: true} },
			want: Lack{Scope: OneContainer, Container: "c", Reason: events.FailedToStart},
		},
		"spec.volumes[7].image: volume \"i\" can't be mounted: the container runtime can't mount images": {
			node: func(n *Node) { n.Runtime.ImageVolumes = false }, want: Lack{Reason: events.FailedMountVolume},
		},
		"metadata.uid: ": {pod: func(p *v1.Pod) { p.UID = "../../etc" }, want: Lack{Reason: events.FailedMakePodDirs}},
	} {
		node, pod := able(), fullPod()
		if c.node != nil {
			c.node(&node)
		}
		if c.pod != nil {
			c.pod(pod)
		}
		c.want.Message = message
		wantLack(t, message, Check(pod, node, nil), c.want)
	}
}

// All lacks are returned at once, in the order of the fields. A pod that doesn't fit is rejected all the same.
func TestCheckReturnsAllLacks(t *testing.T) {
	pod := fullPod()
	pod.Spec.ResourceClaims = []v1.PodResourceClaim{{}}
	pod.Spec.Volumes[0].VolumeSource = v1.VolumeSource{FC: &v1.FCVolumeSource{}}
	pod.Spec.Containers[0].VolumeDevices = []v1.VolumeDevice{{}}
	node := able()
	node.Allocatable = v1.ResourceList{"pods": resource.MustParse("0")}
	got := Check(pod, node, nil)
	var paths []string
	for _, l := range got.Lacks {
		path, _, _ := strings.Cut(l.Message, ":")
		paths = append(paths, path)
	}
	if diff := cmp.Diff([]string{"spec.resourceClaims", "spec.volumes[0].fc", "spec.containers[0].volumeDevices[0]"}, paths); diff != "" {
		t.Errorf("it lacks (-want +got):\n%s", diff)
	}
	got.Lacks = nil
	wantRejection(t, "does not fit", got, "OutOfpods", "Node didn't have enough resource: pods", false)
}

// A device is provided by a claim, also that of a generic ephemeral volume.
func TestCheckDevices(t *testing.T) {
	for name, c := range map[string]struct {
		source v1.VolumeSource
		lacks  bool
	}{
		"a claim":             {v1.VolumeSource{PersistentVolumeClaim: &v1.PersistentVolumeClaimVolumeSource{}}, false},
		"an ephemeral volume": {v1.VolumeSource{Ephemeral: &v1.EphemeralVolumeSource{}}, false},
		"an inline volume":    {v1.VolumeSource{CSI: &v1.CSIVolumeSource{}}, true},
		"a directory":         {v1.VolumeSource{EmptyDir: &v1.EmptyDirVolumeSource{}}, true},
	} {
		pod := fullPod()
		pod.Spec.Volumes = append(pod.Spec.Volumes, v1.Volume{Name: "disk", VolumeSource: c.source})
		pod.Spec.Containers[0].VolumeDevices = []v1.VolumeDevice{{Name: "disk", DevicePath: "/dev/xvda"}}
		got := Check(pod, able(), nil)
		if len(got.Rejected)+len(got.Ignored) > 0 || len(got.Lacks) > 0 != c.lacks {
			t.Errorf("%s: %+v", name, got)
		}
	}
}

// wantLack checks that the pod is admitted with one Lack, whose message has that prefix.
func wantLack(t *testing.T, name string, got Verdict, want Lack) {
	t.Helper()
	if len(got.Rejected) > 0 || len(got.Ignored) > 0 || len(got.Lacks) != 1 || !strings.HasPrefix(got.Lacks[0].Message, want.Message) {
		t.Errorf("%s: %+v; want it to lack %+v", name, got, want)
		return
	}
	got.Lacks[0].Message = want.Message
	if diff := cmp.Diff(want, got.Lacks[0]); diff != "" {
		t.Errorf("%s (-want +got):\n%s", name, diff)
	}
}
