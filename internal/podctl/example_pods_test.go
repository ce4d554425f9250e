package podctl

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	podconfigv1 "github.com/podstream/podstream/proto/podconfig/v1"
	podexecv1 "github.com/podstream/podstream/proto/podexec/v1"
)

// testPod is a pod of one container, seen five minutes ago.
func testPod(namespace, name string) *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: namespace, Name: name,
			Annotations: map[string]string{seenAnnotation: noon.Add(-5 * time.Minute).Format(time.RFC3339Nano)},
		},
		Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "web", Image: "localhost/podstream-sample:dev"}}},
	}
}

// uidOf is a UID that tells which pod it belongs to.
func uidOf(name string) string { return name + "-11111111-2222" }

// desiredPod is a pod as podconfigd serves it in protobuf.
func desiredPod(t *testing.T, source string, pod *corev1.Pod) *podconfigv1.Pod {
	t.Helper()
	data, err := pod.Marshal()
	if err != nil {
		t.Fatal(err)
	}
	p := refPod(source, pod.Namespace, pod.Name)
	p.Content = &podconfigv1.Pod_Protobuf{Protobuf: data}
	return p
}

// refPod is a pod without content.
func refPod(source, namespace, name string) *podconfigv1.Pod {
	return &podconfigv1.Pod{
		Ref:    &podconfigv1.PodRef{Namespace: namespace, Name: name, Uid: uidOf(name)},
		Source: source, SpecDigest: "sha256:spec-" + name, StatusDigest: "sha256:status-" + name,
	}
}

// observedPod is a pod as podexecd serves it in protobuf.
func observedPod(t *testing.T, namespace, name string, status *corev1.PodStatus) *podexecv1.ObservedPod {
	t.Helper()
	data, err := status.Marshal()
	if err != nil {
		t.Fatal(err)
	}
	return &podexecv1.ObservedPod{
		Ref:    &podconfigv1.PodRef{Namespace: namespace, Name: name, Uid: uidOf(name)},
		Source: "file", Desired: true, WorkerState: podexecv1.WorkerState_WORKER_STATE_SYNCING,
		Phase: string(status.Phase), Status: &podexecv1.ObservedPod_Protobuf{Protobuf: data},
	}
}
