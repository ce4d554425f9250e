package containerrow_test

import (
	"fmt"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/podstream/podstream/internal/podctl/containerrow"
	"github.com/podstream/podstream/internal/podctl/podctltest"
	podconfigv1 "github.com/podstream/podstream/proto/podconfig/v1"
)

func TestRows(t *testing.T) {
	at := func(d time.Duration) metav1.Time { return metav1.NewTime(podctltest.Noon.Add(-d)) }
	state := func(name string, s corev1.ContainerState) corev1.ContainerStatus {
		return corev1.ContainerStatus{Name: name, State: s, ContainerID: "containerd://0123456789abcdef", RestartCount: 2}
	}
	status := &corev1.PodStatus{
		InitContainerStatuses: []corev1.ContainerStatus{state("prepare", corev1.ContainerState{
			Terminated: &corev1.ContainerStateTerminated{ExitCode: 0, FinishedAt: at(time.Hour)},
		})},
		ContainerStatuses: []corev1.ContainerStatus{
			state("up", corev1.ContainerState{Running: &corev1.ContainerStateRunning{StartedAt: at(5 * time.Minute)}}),
			state("new", corev1.ContainerState{Running: &corev1.ContainerStateRunning{}}),
			state("failed", corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{ExitCode: 137}}),
			{Name: "waits", State: corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: "ImagePullBackOff"}}}, {Name: "unknown"},
		},
		EphemeralContainerStatuses: []corev1.ContainerStatus{state("debug", corev1.ContainerState{Running: &corev1.ContainerStateRunning{StartedAt: at(0)}})},
	}
	got := ""
	for _, r := range containerrow.Of(&podconfigv1.PodRef{Namespace: "default", Name: "web"}, status) {
		got += fmt.Sprintf("%s %s/%s/%s %s %s: %s\n", r.Type, r.Namespace, r.Pod, r.Name, r.ShortID(), r.State, r.Status(podctltest.Noon))
	}
	want := "init default/web/prepare 0123456789ab exited: Exited (0) 60m ago\n" +
		"container default/web/up 0123456789ab running: Up 5m\n" +
		"container default/web/new 0123456789ab running: Up\n" +
		"container default/web/failed 0123456789ab exited: Exited (137)\n" +
		"container default/web/waits  waiting: Waiting: ImagePullBackOff\n" +
		"container default/web/unknown  waiting: Waiting\n" +
		"ephemeral default/web/debug 0123456789ab running: Up 0s\n"
	if got != want {
		t.Errorf("got:\n%swant:\n%s", got, want)
	}
}
