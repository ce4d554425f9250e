package adoption_test

import (
	"slices"
	"testing"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/podstream/podstream/internal/execsvc/decide/admit"
	"github.com/podstream/podstream/internal/execsvc/decide/adoption"
)

// capable is a node whose runtime has all features: what a pod lacks there is podexecd's.
var capable = admit.Node{AppArmor: true, Runtime: admit.Runtime{
	SupplementalGroupsPolicy: true, ImageVolumes: true,
	Handlers: map[string]admit.Handler{"": {UserNamespaces: true, RecursiveReadOnlyMounts: true}},
}}

// TestLacks: what the plan names is what admission lets the pod wait for, and resources that it ignores.
func TestLacks(t *testing.T) {
	mounted := func(source v1.VolumeSource) func(*v1.Pod) {
		return func(p *v1.Pod) {
			p.Spec.Volumes = []v1.Volume{{Name: "v", VolumeSource: source}}
			p.Spec.Containers[0].VolumeMounts = []v1.VolumeMount{{Name: "v"}}
		}
	}
	for name, test := range map[string]struct {
		change func(*v1.Pod)
		want   []string
		// ignored is set if podexecd runs the pod without what the plan names.
		ignored bool
	}{
		"nothing":   {func(*v1.Pod) {}, nil, false},
		"scratch":   {mounted(v1.VolumeSource{EmptyDir: &v1.EmptyDirVolumeSource{}}), nil, false},
		"host":      {mounted(v1.VolumeSource{HostPath: &v1.HostPathVolumeSource{}}), nil, false},
		"image":     {mounted(v1.VolumeSource{Image: &v1.ImageVolumeSource{}}), nil, false},
		"projected": {mounted(v1.VolumeSource{Projected: &v1.ProjectedVolumeSource{}}), nil, false},
		"network":   {mounted(v1.VolumeSource{CephFS: &v1.CephFSVolumeSource{}}), []string{"spec.volumes[0].cephfs"}, false},
		"certificate": {mounted(v1.VolumeSource{Projected: &v1.ProjectedVolumeSource{
			Sources: []v1.VolumeProjection{{}, {PodCertificate: &v1.PodCertificateProjection{}}},
		}}), []string{"spec.volumes[0].projected.sources[1].podCertificate"}, false},
		"an unused claim": {func(p *v1.Pod) {
			p.Spec.Volumes = []v1.Volume{{Name: "v", VolumeSource: v1.VolumeSource{CephFS: &v1.CephFSVolumeSource{}}}}
		}, nil, false},
		"resource claims": {func(p *v1.Pod) { p.Spec.ResourceClaims = []v1.PodResourceClaim{{Name: "gpu"}} }, []string{"spec.resourceClaims"}, false},
		"device": {func(p *v1.Pod) {
			p.Spec.Containers[0].Resources.Limits = v1.ResourceList{"cpu": resource.MustParse("1"), "example.com/gpu": resource.MustParse("1")}
		}, []string{"container app: resources.limits[example.com/gpu]"}, true},
	} {
		t.Run(name, func(t *testing.T) {
			pod := &v1.Pod{Spec: v1.PodSpec{Containers: []v1.Container{{Name: "app"}}}}
			pod.UID = "u"
			test.change(pod)
			got, verdict := adoption.Lacks(pod), admit.Check(pod, capable, nil)
			if !slices.Equal(got, test.want) {
				t.Errorf("it lacks %q; want %q", got, test.want)
			}
			if waits := len(verdict.Lacks) > 0; waits != (len(test.want) > 0 && !test.ignored) || test.ignored && len(verdict.Ignored) == 0 {
				t.Errorf("admission has the lacks %+v, and ignores %q", verdict.Lacks, verdict.Ignored)
			}
		})
	}
}

// TestStaged: the plan names volumes that the kubelet may have staged, though admission accepts them.
func TestStaged(t *testing.T) {
	for want, source := range map[string]v1.VolumeSource{
		"spec.volumes[0].persistentVolumeClaim": {PersistentVolumeClaim: &v1.PersistentVolumeClaimVolumeSource{}},
		"spec.volumes[0].csi":                   {CSI: &v1.CSIVolumeSource{}},
		"spec.volumes[0].ephemeral":             {Ephemeral: &v1.EphemeralVolumeSource{}},
		"spec.volumes[0].nfs":                   {NFS: &v1.NFSVolumeSource{}},
		"spec.volumes[0].azureDisk":             {AzureDisk: &v1.AzureDiskVolumeSource{}},
	} {
		pod := &v1.Pod{Spec: v1.PodSpec{Volumes: []v1.Volume{{Name: "v", VolumeSource: source}}, Containers: []v1.Container{
			{Name: "app", VolumeDevices: []v1.VolumeDevice{{Name: "v"}}},
		}}}
		if got := adoption.Lacks(pod); !slices.Equal(got, []string{want}) {
			t.Errorf("it lacks %q; want %q", got, want)
		}
	}
}
