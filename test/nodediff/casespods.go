package nodediff

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"syscall"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/utils/ptr"
)

// oomCases are those of a container and of a machine without memory.
func oomCases() []*Case {
	hog := pod("hog", "hog", "200")
	hog.Spec.Containers[0].Resources.Limits = v1.ResourceList{v1.ResourceMemory: resource.MustParse("48Mi")}
	return []*Case{
		{Name: "container-oom", Pods: []*v1.Pod{hog}, Wants: []string{
			"pod hog status.phase=Failed", "pod hog status.containerStatuses[0].state.terminated.reason=OOMKilled"}},
		{Name: "system-oom", Act: systemOOM, Wants: []string{"event Node/node SystemOOM"}},
	}
}

// podCases are those of events of pods.
func podCases() []*Case {
	return []*Case{
		{Name: "missing-objects", Pods: []*v1.Pod{
			withVolume(pod("no-configmap", "sleep"), v1.VolumeSource{ConfigMap: &v1.ConfigMapVolumeSource{LocalObjectReference: v1.LocalObjectReference{Name: "absent"}}}),
			withVolume(pod("no-secret", "sleep"), v1.VolumeSource{Secret: &v1.SecretVolumeSource{SecretName: "absent"}}),
			withVolume(pod("no-host-path", "sleep"), v1.VolumeSource{HostPath: &v1.HostPathVolumeSource{Path: "/absent", Type: ptr.To(v1.HostPathDirectory)}}),
			withEnv(pod("no-env-configmap", "sleep"), v1.EnvFromSource{ConfigMapRef: &v1.ConfigMapEnvSource{LocalObjectReference: v1.LocalObjectReference{Name: "absent"}}}),
			withEnv(pod("no-env-secret", "sleep"), v1.EnvFromSource{SecretRef: &v1.SecretEnvSource{LocalObjectReference: v1.LocalObjectReference{Name: "absent"}}}),
		}, Wants: []string{
			"event Pod/no-configmap FailedMount", "event Pod/no-secret FailedMount", "event Pod/no-host-path FailedMount",
			"event Pod/no-env-configmap Failed", "event Pod/no-env-secret Failed",
		}},
		{Name: "two-static-pods-of-one-name", Config: "{staticPodURL: http://" + hub + twinsPath + ", httpCheckFrequency: 2s}", Wants: []string{
			"event Pod/twin-node FailedValidation", "pod twin-node status.phase=Running"}},
		{Name: "invalid-static-pod", Act: invalidStatic, Wants: []string{"pod good-node status.phase=Running"}},
		{Name: "more-than-allocatable", Pods: []*v1.Pod{withCPU(pod("large", "sleep"), "8")}, Wants: []string{
			"event Pod/large OutOfcpu", "pod large status.phase=Failed"}},
	}
}

func withVolume(pod *v1.Pod, source v1.VolumeSource) *v1.Pod {
	pod.Spec.Volumes = []v1.Volume{{Name: "v", VolumeSource: source}}
	pod.Spec.Containers[0].VolumeMounts = []v1.VolumeMount{{Name: "v", MountPath: "/v"}}
	return pod
}

func withEnv(pod *v1.Pod, source v1.EnvFromSource) *v1.Pod {
	pod.Spec.Containers[0].EnvFrom = []v1.EnvFromSource{source}
	return pod
}

func withCPU(pod *v1.Pod, amount string) *v1.Pod {
	pod.Spec.Containers[0].Resources.Requests = v1.ResourceList{v1.ResourceCPU: resource.MustParse(amount)}
	return pod
}

// systemOOM makes a process take all memory of the machine. The kernel ends it: on User-Mode Linux with SIGSEGV, if it
// does so during a page fault.
func systemOOM(ctx context.Context, r *Run) error {
	hog, err := start(r.dir, filepath.Join(r.Programs, "sample"), "hog", "8000")
	if err != nil {
		return err
	}
	if err := os.WriteFile(fmt.Sprintf("/proc/%d/oom_score_adj", hog.pid()), []byte("1000"), 0); err != nil {
		return err
	}
	select {
	case <-hog.done:
	case <-ctx.Done():
		return ctx.Err()
	}
	if ended := hog.cmd.ProcessState.Sys().(syscall.WaitStatus).Signal(); ended != syscall.SIGKILL && ended != syscall.SIGSEGV {
		return fmt.Errorf("the process that takes all memory: %w: %s", hog.err, hog.tail(1000))
	}
	return nil
}

const (
	staticPod = `{"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "%s"}, "spec": {"containers": [
{"name": "app", "image": "localhost/podstream-sample:dev", "imagePullPolicy": "IfNotPresent", "args": ["sleep"]}]}}`
	// twinsPath is where the hub has two static pods of one name.
	twinsPath = "/twins"
)

// static writes a manifest.
func (r *Run) static(file, text string) error {
	return os.WriteFile(r.path("manifests", file), []byte(text), 0o644)
}

// invalidStatic writes an invalid static pod, and a valid one.
func invalidStatic(_ context.Context, r *Run) error {
	if err := r.static("bad.yaml", "apiVersion: v1\nkind: Pod\nmetadata: {name: bad}\nspec: {containers: []}\n"); err != nil {
		return err
	}
	return r.static("good.yaml", fmt.Sprintf(staticPod, "good"))
}
