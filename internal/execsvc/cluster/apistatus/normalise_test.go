package apistatus

import (
	"strings"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
)

// Two statuses are equal if they differ only in parts that the server doesn't keep, or in an insignificant order.
func TestSame(t *testing.T) {
	pod := &v1.Pod{Spec: v1.PodSpec{InitContainers: []v1.Container{{Name: "z"}, {Name: "a"}}, Containers: []v1.Container{{Name: "a"}, {Name: "b"}}}}
	status := func() *v1.PodStatus {
		return &v1.PodStatus{
			StartTime: ptr.To(at(1)), Conditions: []v1.PodCondition{cond(v1.PodReady, v1.ConditionTrue, "", 1)},
			InitContainerStatuses: []v1.ContainerStatus{{Name: "z"}, {Name: "a"}},
			ContainerStatuses:     containers(exited(0), v1.ContainerState{Running: &v1.ContainerStateRunning{StartedAt: at(2)}}),
		}
	}
	merged := status()
	normalise(pod, merged)
	for name, tt := range map[string]struct {
		change func(*v1.PodStatus)
		want   bool
	}{
		"nothing": {func(*v1.PodStatus) {}, true},
		"parts of seconds": {func(s *v1.PodStatus) {
			half := metav1.NewTime(at(1).Add(time.Second / 2))
			s.StartTime, s.Conditions[0].LastTransitionTime = &half, half
		}, true},
		"order": {func(s *v1.PodStatus) {
			s.ContainerStatuses[0], s.ContainerStatuses[1] = s.ContainerStatuses[1], s.ContainerStatuses[0]
			s.InitContainerStatuses[0], s.InitContainerStatuses[1] = s.InitContainerStatuses[1], s.InitContainerStatuses[0]
		}, true},
		"a whole second": {func(s *v1.PodStatus) { s.StartTime = ptr.To(at(2)) }, false},
		"a state":        {func(s *v1.PodStatus) { s.ContainerStatuses[0].State = running1() }, false},
		"a reason":       {func(s *v1.PodStatus) { s.Conditions[0].Reason = "r" }, false},
	} {
		there := status()
		tt.change(there)
		if got := same(pod, there, merged); got != tt.want {
			t.Errorf("%s differs: same is %v; want %v", name, got, tt.want)
		}
	}
}

// Containers' termination messages are cut to the server's limit for all of them together, between characters.
func TestLongMessages(t *testing.T) {
	pod := &v1.Pod{Spec: v1.PodSpec{Containers: []v1.Container{{Name: "a"}, {Name: "b"}, {Name: "c"}}}}
	s := &v1.PodStatus{ContainerStatuses: containers(exited(1))}
	s.ContainerStatuses[0].State.Terminated.Message = "x" + strings.Repeat("ä", 5000)
	normalise(pod, s)
	if got, want := s.ContainerStatuses[0].State.Terminated.Message, "x"+strings.Repeat("ä", 2047); got != want {
		t.Errorf("the message has %d bytes; want %d", len(got), len(want))
	}
}
