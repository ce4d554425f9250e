package stream

import (
	"testing"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	podconfigv1 "github.com/podstream/podstream/proto/podconfig/v1"
)

// TestDeleting reads the timestamp as Kubernetes writes it, in both formats.
func TestDeleting(t *testing.T) {
	now := metav1.Now()
	encode := func(meta metav1.ObjectMeta) *podconfigv1.Pod {
		pod := v1.Pod{ObjectMeta: meta, Spec: v1.PodSpec{NodeName: "n"}}
		content, err := pod.Marshal()
		if err != nil {
			t.Fatal(err)
		}
		return &podconfigv1.Pod{Content: &podconfigv1.Pod_Protobuf{Protobuf: content}}
	}
	whole := encode(metav1.ObjectMeta{Name: "web", CreationTimestamp: now, DeletionTimestamp: &now})
	cut := &podconfigv1.Pod{Content: &podconfigv1.Pod_Protobuf{Protobuf: whole.GetProtobuf()[:8]}}
	for _, tc := range []struct {
		name string
		pod  *podconfigv1.Pod
		want bool
	}{
		{"protobuf, being deleted", whole, true},
		{"protobuf, not", encode(metav1.ObjectMeta{Name: "web", CreationTimestamp: now, Labels: map[string]string{"a": "b"}}), false},
		{"protobuf, cut off", cut, false},
		{"protobuf, garbage", &podconfigv1.Pod{Content: &podconfigv1.Pod_Protobuf{Protobuf: []byte{0xff, 0xff, 0xff}}}, false},
		{"JSON, being deleted", pods("file", "a/1/1/deleted")[0], true},
		{"JSON, not", pods("file", "a/1/1")[0], false},
		{"no content", &podconfigv1.Pod{}, false},
	} {
		if got := deleting(tc.pod); got != tc.want {
			t.Errorf("%s: %v; want %v", tc.name, got, tc.want)
		}
	}
}

// FuzzDeleting: reading ends for every content.
func FuzzDeleting(f *testing.F) {
	now := metav1.Now()
	pod := v1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "web", DeletionTimestamp: &now}}
	content, err := pod.Marshal()
	if err != nil {
		f.Fatal(err)
	}
	f.Add(content)
	f.Add([]byte{0x0a, 0x02, 0x4a, 0x00})
	f.Fuzz(func(t *testing.T, content []byte) {
		_ = deleting(&podconfigv1.Pod{Content: &podconfigv1.Pod_Protobuf{Protobuf: content}})
		var pod v1.Pod
		// Kubernetes refuses more than deleting does, and takes the last of several fields, not the first: only what
		// it writes itself must agree.
		if pod.Unmarshal(content) != nil {
			return
		}
		again, err := pod.Marshal()
		if err != nil {
			t.Fatal(err)
		}
		got := deleting(&podconfigv1.Pod{Content: &podconfigv1.Pod_Protobuf{Protobuf: again}})
		if want := pod.DeletionTimestamp != nil; got != want {
			t.Errorf("deleting tells %v of a pod with deletion timestamp %v", got, pod.DeletionTimestamp)
		}
	})
}
