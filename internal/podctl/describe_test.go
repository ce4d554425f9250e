package podctl

import (
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"

	"github.com/podstream/podstream/internal/podctl/podctltest"
	podconfigv1 "github.com/podstream/podstream/proto/podconfig/v1"
	podexecv1 "github.com/podstream/podstream/proto/podexec/v1"
)

// at is a time so long before noon.
func at(d time.Duration) metav1.Time { return metav1.NewTime(podctltest.Noon.Add(-d)) }

// stuck is a pod of which one container crashes and the other's image doesn't come, as both daemons have it.
func stuck(t *testing.T) (*podconfigv1.Pod, *podexecv1.ObservedPod) {
	t.Helper()
	pod := podctltest.Pod("default", "stuck-node1")
	pod.Labels = map[string]string{"app": "web", "tier": "front"}
	pod.Spec = corev1.PodSpec{
		NodeName: "node1",
		InitContainers: []corev1.Container{{
			Name: "prepare", Image: "localhost/prepare:1", Command: []string{"sh", "-c", "touch \"a b\""},
		}},
		Containers: []corev1.Container{
			{
				Name: "app", Image: "localhost/app:1", ImagePullPolicy: corev1.PullIfNotPresent, Args: []string{"serve", ""},
				Ports: []corev1.ContainerPort{{Name: "http", ContainerPort: 8080, HostPort: 80, Protocol: corev1.ProtocolTCP}},
				Env: []corev1.EnvVar{
					{Name: "MODE", Value: "loud\x1b[31m"},
					{Name: "PASSWORD", ValueFrom: &corev1.EnvVarSource{SecretKeyRef: &corev1.SecretKeySelector{
						LocalObjectReference: corev1.LocalObjectReference{Name: "db"}, Key: "password"}}},
				},
				Resources: corev1.ResourceRequirements{
					Limits:   corev1.ResourceList{corev1.ResourceMemory: resource.MustParse("64Mi")},
					Requests: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("100m"), corev1.ResourceMemory: resource.MustParse("32Mi")},
				},
				ReadinessProbe: &corev1.Probe{
					ProbeHandler:  corev1.ProbeHandler{HTTPGet: &corev1.HTTPGetAction{Path: "/ready", Port: intstr.FromString("http")}},
					PeriodSeconds: 10, TimeoutSeconds: 1, SuccessThreshold: 1, FailureThreshold: 3,
				},
				VolumeMounts: []corev1.VolumeMount{{Name: "data", MountPath: "/data"}, {Name: "config", MountPath: "/etc/app", ReadOnly: true}},
			},
			{Name: "side", Image: "localhost/side:1"},
		},
		Volumes: []corev1.Volume{
			{Name: "data", VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}},
			{Name: "config", VolumeSource: corev1.VolumeSource{ConfigMap: &corev1.ConfigMapVolumeSource{
				LocalObjectReference: corev1.LocalObjectReference{Name: "app"}}}},
		},
	}
	crashing := podctltest.Waiting("app", "CrashLoopBackOff", "back-off 20s restarting failed container")
	crashing.RestartCount, crashing.ContainerID, crashing.Started = 2, "containerd://0f1e", ptr.To(false)
	crashing.LastTerminationState.Terminated = &corev1.ContainerStateTerminated{
		ExitCode: 1, Reason: "Error", Message: "no database", StartedAt: at(time.Minute), FinishedAt: at(10 * time.Second),
	}
	observed := podctltest.Observed(t, "default", "stuck-node1", &corev1.PodStatus{
		Phase: corev1.PodPending, StartTime: ptr.To(at(5 * time.Minute)), PodIP: "10.0.0.7", PodIPs: []corev1.PodIP{{IP: "10.0.0.7"}, {IP: "fd00::7"}},
		QOSClass: corev1.PodQOSBurstable,
		Conditions: []corev1.PodCondition{
			{Type: corev1.PodInitialized, Status: corev1.ConditionTrue, LastTransitionTime: at(4 * time.Minute)},
			{Type: corev1.PodReady, Status: corev1.ConditionFalse, Reason: "ContainersNotReady", Message: "containers with unready status: [app side]"},
		},
		InitContainerStatuses: []corev1.ContainerStatus{{Name: "prepare", Ready: true, State: corev1.ContainerState{
			Terminated: &corev1.ContainerStateTerminated{Reason: "Completed", StartedAt: at(5 * time.Minute), FinishedAt: at(4 * time.Minute)}}}},
		ContainerStatuses: []corev1.ContainerStatus{crashing, podctltest.Waiting("side", "ContainerCreating", "")},
	})
	observed.LastError = "start container app: exit code 1"
	observed.RetryTime = timestamppb.New(podctltest.Noon.Add(10 * time.Second))
	observed.Pulls = []*podexecv1.ImagePull{{Image: "localhost/side:1", AskedTime: podctltest.Before(time.Minute), StartedTime: podctltest.Before(30 * time.Second)}}
	return podctltest.Desired(t, "file", pod), observed
}

func stuckEvents() []*podexecv1.PodEvent {
	return []*podexecv1.PodEvent{
		podEvent("default", "stuck-node1", "side", "Normal", "Pulling", `Pulling image "localhost/side:1"`, 1),
		podEvent("default", "stuck-node1", "app", "Warning", "BackOff", "Back-off restarting failed container", 3),
	}
}

func TestDescribe(t *testing.T) {
	desired, observed := stuck(t)
	for _, away := range []string{"", "podconfigd", "podexecd"} {
		t.Run(away, func(t *testing.T) {
			n := newNode(t)
			if away != "podconfigd" {
				n.podconfigd(&fakePodconfigd{pods: []*podconfigv1.Pod{desired}})
			}
			if away != "podexecd" {
				n.busy(&busyPodexecd{pods: []*podexecv1.ObservedPod{observed}, events: stuckEvents()})
			}
			want, name := exitOK, "describe"
			if away != "" {
				want, name = exitFailed, "describe-without-"+away
			}
			if code := n.run(t.Context(), "describe", "stuck"); code != want {
				t.Errorf("exit code %d, want %d", code, want)
			}
			n.golden(name+".txt", n.stdout.String())
			n.golden(name+".stderr", n.stderr.String())
		})
	}
}

// Two pods of one name, of which one replaces the other, are both described.
func TestDescribeBothIncarnations(t *testing.T) {
	old := runningPod(t, "default", "web")
	old.Ref.Uid, old.Desired, old.WorkerState = "old", false, podexecv1.WorkerState_WORKER_STATE_TERMINATING
	next := podctltest.Observed(t, "default", "web", &corev1.PodStatus{Phase: corev1.PodPending})
	next.WorkerState, next.WaitsFor = podexecv1.WorkerState_WORKER_STATE_WAITING, "pod old of the same name to end"
	n := newNode(t)
	n.podconfigd(&fakePodconfigd{pods: []*podconfigv1.Pod{podctltest.Desired(t, "file", podctltest.Pod("default", "web"))}})
	n.busy(&busyPodexecd{pods: []*podexecv1.ObservedPod{old, next}})
	if code := n.run(t.Context(), "describe", "web"); code != exitOK {
		t.Errorf("exit code %d: %s", code, n.stderr)
	}
	for _, want := range []string{
		"It waits for: pod old of the same name to end.\n", "It is being ended: its containers are given the time to stop.\n",
	} {
		if !strings.Contains(n.stdout.String(), want) {
			t.Errorf("%q isn't in:\n%s", want, n.stdout)
		}
	}
}

func TestDescribeNothing(t *testing.T) {
	n := newNode(t)
	if code := n.run(t.Context(), "describe", "web"); code != exitFailed || n.stdout.String() != "" ||
		strings.Count(n.stderr.String(), "there is no such socket") != 2 {
		t.Errorf("both away: exit code %d, stdout %q, stderr:\n%s", code, n.stdout, n.stderr)
	}
	n = newNode(t)
	n.podconfigd(&fakePodconfigd{})
	n.busy(&busyPodexecd{pods: []*podexecv1.ObservedPod{runningPod(t, "default", "web-node2")}})
	if code := n.run(t.Context(), "describe", "web"); code != exitFailed ||
		n.stderr.String() != "podctl: there is no pod default/web; there is web-node2\n" {
		t.Errorf("no pod: exit code %d, stderr:\n%s", code, n.stderr)
	}
}

// A podexecd that is older than podctl has no events; that is no failure.
func TestDescribeWithoutEvents(t *testing.T) {
	n := newNode(t)
	n.podconfigd(&fakePodconfigd{})
	n.podexecd(&fakePodexecd{pods: []*podexecv1.ObservedPod{runningPod(t, "default", "web")}})
	if code := n.run(t.Context(), "describe", "web"); code != exitOK || !strings.Contains(n.stdout.String(), "Events:") {
		t.Errorf("exit code %d, stdout:\n%s\nstderr: %s", code, n.stdout, n.stderr)
	}
}
