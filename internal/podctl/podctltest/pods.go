package podctltest

import (
	"testing"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	podconfigv1 "github.com/podstream/podstream/proto/podconfig/v1"
	podexecv1 "github.com/podstream/podstream/proto/podexec/v1"
)

// Pod is a pod with one container, seen five minutes ago.
func Pod(namespace, name string) *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: namespace, Name: name,
			Annotations: map[string]string{"kubernetes.io/config.seen": Noon.Add(-5 * time.Minute).Format(time.RFC3339Nano)},
		},
		Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "web", Image: "localhost/podstream-sample:dev"}}},
	}
}

// UID is a UID with the name of its pod.
func UID(name string) string { return name + "-11111111-2222" }

// Desired is a pod as podconfigd serves it in protobuf.
func Desired(t *testing.T, source string, pod *corev1.Pod) *podconfigv1.Pod {
	t.Helper()
	data, err := pod.Marshal()
	if err != nil {
		t.Fatal(err)
	}
	p := Ref(source, pod.Namespace, pod.Name)
	p.Content = &podconfigv1.Pod_Protobuf{Protobuf: data}
	return p
}

// Ref is a pod without content.
func Ref(source, namespace, name string) *podconfigv1.Pod {
	return &podconfigv1.Pod{
		Ref:    &podconfigv1.PodRef{Namespace: namespace, Name: name, Uid: UID(name)},
		Source: source, SpecDigest: "sha256:spec-" + name, StatusDigest: "sha256:status-" + name,
	}
}

// Observed is a pod as podexecd serves it in protobuf.
func Observed(t *testing.T, namespace, name string, status *corev1.PodStatus) *podexecv1.ObservedPod {
	t.Helper()
	data, err := status.Marshal()
	if err != nil {
		t.Fatal(err)
	}
	return &podexecv1.ObservedPod{
		Ref:    &podconfigv1.PodRef{Namespace: namespace, Name: name, Uid: UID(name)},
		Source: "file", Desired: true, WorkerState: podexecv1.WorkerState_WORKER_STATE_SYNCING,
		Phase: string(status.Phase), Status: &podexecv1.ObservedPod_Protobuf{Protobuf: data},
	}
}

// Running is the status of a container that runs and is ready.
func Running(name string) corev1.ContainerStatus {
	return corev1.ContainerStatus{Name: name, Ready: true, State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{}}}
}

// Waiting is the status of a container that waits for that reason.
func Waiting(name, reason, message string) corev1.ContainerStatus {
	return corev1.ContainerStatus{Name: name, State: corev1.ContainerState{
		Waiting: &corev1.ContainerStateWaiting{Reason: reason, Message: message}}}
}

// Before is a time before Noon.
func Before(d time.Duration) *timestamppb.Timestamp { return timestamppb.New(Noon.Add(-d)) }

// Noon is the time of all tests.
var Noon = time.Date(2026, 3, 1, 12, 0, 1, 0, time.UTC)
