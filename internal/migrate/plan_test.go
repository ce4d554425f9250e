package migrate

import (
	"slices"
	"testing"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/podstream/podstream/internal/execsvc/pod/criconfig"
	"github.com/podstream/podstream/internal/execsvc/pod/podmeta"
)

// node returns a node with one running pod of the API server.
func node() (Input, *v1.Pod) {
	pod := v1.Pod{}
	pod.Namespace, pod.Name, pod.UID = "default", "web", "6a1e3f0c-0000-4000-8000-000000000001"
	pod.Spec.Containers = []v1.Container{{Name: "app", Image: "app:1"}}
	labels := podmeta.Labels(&pod)
	labels[podmeta.ContainerNameLabel] = "app"
	in := Input{
		Sandboxes: []*runtimeapi.PodSandbox{{
			Id: "s1", State: runtimeapi.PodSandboxState_SANDBOX_READY, Labels: podmeta.Labels(&pod),
			Annotations: map[string]string{podmeta.SourceAnnotation: "api"},
		}},
		Containers: []*runtimeapi.Container{{
			Id: "c1", PodSandboxId: "s1", State: runtimeapi.ContainerState_CONTAINER_RUNNING, Labels: labels,
			Annotations: map[string]string{criconfig.ContainerHashAnnotation: criconfig.ContainerHash(&pod.Spec.Containers[0])},
		}},
		Desired:        []v1.Pod{pod},
		HasDirectories: func(map[string]string) bool { return true },
	}
	return in, &in.Desired[0]
}

func TestPlan(t *testing.T) {
	for name, test := range map[string]struct {
		change func(in *Input, pod *v1.Pod)
		want   Action
	}{
		"API pod":         {func(*Input, *v1.Pod) {}, Keep},
		"another image":   {func(_ *Input, p *v1.Pod) { p.Spec.Containers[0].Image = "app:2" }, Restart},
		"no container":    {func(_ *Input, p *v1.Pod) { p.Spec.Containers[0].Name = "other" }, Restart},
		"another UID":     {func(_ *Input, p *v1.Pod) { p.UID = "other" }, Remove},
		"forged name":     {func(_ *Input, p *v1.Pod) { p.Namespace = "other" }, Remove},
		"no directories":  {func(in *Input, _ *v1.Pod) { in.HasDirectories = func(map[string]string) bool { return false } }, Ignore},
		"an agent's mark": {func(in *Input, _ *v1.Pod) { in.Sandboxes[0].Annotations[podmeta.AgentAnnotation] = "" }, Ignore},
		"static, own UID": {func(in *Input, _ *v1.Pod) { in.Sandboxes[0].Annotations[podmeta.SourceAnnotation] = "file" }, Keep},
		"static": {func(in *Input, _ *v1.Pod) {
			in.Sandboxes[0].Annotations[podmeta.SourceAnnotation] = "file"
			in.Sandboxes[0].Labels[podmeta.PodUIDLabel] = "0123456789abcdef0123456789abcdef"
		}, Restart},
	} {
		t.Run(name, func(t *testing.T) {
			in, pod := node()
			test.change(&in, pod)
			got := Plan(in)
			if len(got) != 1 || got[0].Action != test.want || got[0].Reason == "" {
				t.Errorf("it is %+v, want %s with a reason", got, test.want)
			}
		})
	}
	in, _ := node()
	in.Sandboxes[0].State = runtimeapi.PodSandboxState_SANDBOX_NOTREADY
	if got := Plan(in); len(got) != 0 {
		t.Errorf("an ended sandbox has the plan %+v", got)
	}
}

func TestLacks(t *testing.T) {
	_, pod := node()
	pod.Spec.Volumes = []v1.Volume{
		{Name: "scratch", VolumeSource: v1.VolumeSource{EmptyDir: &v1.EmptyDirVolumeSource{}}},
		{Name: "data", VolumeSource: v1.VolumeSource{PersistentVolumeClaim: &v1.PersistentVolumeClaimVolumeSource{}}},
		{Name: "token", VolumeSource: v1.VolumeSource{Projected: &v1.ProjectedVolumeSource{}}},
		{Name: "cert", VolumeSource: v1.VolumeSource{Projected: &v1.ProjectedVolumeSource{
			Sources: []v1.VolumeProjection{{PodCertificate: &v1.PodCertificateProjection{}}},
		}}},
	}
	pod.Spec.ResourceClaims = []v1.PodResourceClaim{{Name: "gpu"}}
	pod.Spec.Containers[0].VolumeDevices = []v1.VolumeDevice{{Name: "disk"}}
	pod.Spec.Containers[0].Resources.Limits = v1.ResourceList{"cpu": resource.MustParse("1"), "example.com/gpu": resource.MustParse("1")}
	want := []string{
		"volume data: its type is not supported", "volume cert: its type is not supported", "resourceClaims",
		"container app: volumeDevices", "container app: resource example.com/gpu of a device plugin",
	}
	if got := Lacks(pod); !slices.Equal(got, want) {
		t.Errorf("it lacks %q, want %q", got, want)
	}
}
