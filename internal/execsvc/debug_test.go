package execsvc

import (
	"testing"

	v1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"

	"github.com/podstream/podstream/client"
	"github.com/podstream/podstream/internal/execsvc/pod/podview"
)

// withDebugger returns a copy of the pod with an ephemeral container.
func withDebugger(pod *v1.Pod, change func(*v1.PodSpec, *v1.EphemeralContainer)) *v1.Pod {
	pod = pod.DeepCopy()
	e := v1.EphemeralContainer{EphemeralContainerCommon: v1.EphemeralContainerCommon{
		Name: "debugger", Image: pod.Spec.Containers[0].Image, ImagePullPolicy: v1.PullIfNotPresent,
	}}
	change(&pod.Spec, &e)
	pod.Spec.EphemeralContainers = []v1.EphemeralContainer{e}
	return pod
}

// If an ephemeral container can't run here, only that container waits: the pod's containers are restarted, and its
// deadline ends it.
func TestUnsupportedDebuggerWaitsAlone(t *testing.T) {
	for name, impossible := range map[string]func(*v1.PodSpec, *v1.EphemeralContainer){
		"a profile": func(_ *v1.PodSpec, e *v1.EphemeralContainer) {
			e.SecurityContext = &v1.SecurityContext{AppArmorProfile: &v1.AppArmorProfile{Type: v1.AppArmorProfileTypeRuntimeDefault}}
		},
		"a device": func(_ *v1.PodSpec, e *v1.EphemeralContainer) { e.VolumeDevices = []v1.VolumeDevice{{Name: "data"}} },
		"a network volume": func(_ *v1.PodSpec, e *v1.EphemeralContainer) {
			e.VolumeMounts = []v1.VolumeMount{{Name: "data", MountPath: "/data"}}
		},
		"a missing directory": func(s *v1.PodSpec, e *v1.EphemeralContainer) {
			s.Volumes[0].VolumeSource = v1.VolumeSource{HostPath: &v1.HostPathVolumeSource{Path: "/nonexistent", Type: ptr.To(v1.HostPathDirectory)}}
			e.VolumeMounts = []v1.VolumeMount{{Name: "data", MountPath: "/data"}}
		},
	} {
		t.Run(name, func(t *testing.T) {
			n := newNode(t)
			l := n.start()
			pod := newPod("a", "web", "api")
			source := v1.VolumeSource{CephFS: &v1.CephFSVolumeSource{Monitors: []string{"ceph.example.com"}}}
			pod.Spec.Volumes = []v1.Volume{{Name: "data", VolumeSource: source}}
			l.deliver(ops(change(client.Add, true, pod)))
			id := l.awaitRunning("a")
			debugged := withDebugger(pod, impossible)
			l.deliver(ops(change(client.Update, true, debugged)))
			p := l.await("a", "has a debugger that waits", func(p podview.Pod) bool {
				s := p.Status.EphemeralContainerStatuses
				return p.Err != nil && len(s) == 1 && s[0].State.Waiting != nil && s[0].State.Waiting.Reason == "CreateContainerConfigError"
			})
			if p.Status.Phase != v1.PodRunning {
				t.Errorf("the pod is %s", p.Status.Phase)
			}
			if err := n.Server.ExitContainer(id, 1); err != nil {
				t.Fatal(err)
			}
			l.await("a", "is restarted", func(p podview.Pod) bool {
				s := p.Status.ContainerStatuses
				return len(s) == 1 && s[0].RestartCount == 1 && s[0].State.Running != nil
			})
			late := debugged.DeepCopy()
			late.Spec.ActiveDeadlineSeconds = ptr.To[int64](1)
			l.deliver(ops(change(client.Update, true, late)))
			l.await("a", "is ended by its deadline", func(p podview.Pod) bool { return p.State == finished && p.Status.Reason == "DeadlineExceeded" })
		})
	}
}

// A running pod goes on after a change for which a new pod would be rejected.
func TestRunningPodIsNotRejected(t *testing.T) {
	n := newNode(t)
	l := n.start()
	pod := newPod("a", "web", "api")
	l.deliver(ops(change(client.Add, true, pod)))
	id := l.awaitRunning("a")
	l.deliver(ops(change(client.Update, true, ofAnotherOS(pod))))
	if err := n.Server.ExitContainer(id, 1); err != nil {
		t.Fatal(err)
	}
	p := l.await("a", "is restarted", func(p podview.Pod) bool {
		s := p.Status.ContainerStatuses
		return len(s) == 1 && s[0].RestartCount == 1 && s[0].State.Running != nil
	})
	if p.Err != nil {
		t.Errorf("error %v", p.Err)
	}
}
