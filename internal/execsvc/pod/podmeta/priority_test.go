package podmeta

import (
	"testing"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
)

// TestPriorities: which pods preempt, are spared by eviction, and are node-critical.
func TestPriorities(t *testing.T) {
	type answers struct{ preempts, spared, nodeCritical bool }
	for name, tt := range map[string]struct {
		source, class string
		priority      *int32
		mirror        bool
		want          answers
	}{
		"API pod":                          {"api", "", nil, false, answers{}},
		"API pod below system priority":    {"api", "", ptr.To[int32](1_999_999_999), false, answers{}},
		"API pod of system priority":       {"api", "", ptr.To[int32](2_000_000_000), false, answers{preempts: true, spared: true}},
		"API pod with a class alone":       {"api", "system-node-critical", nil, false, answers{spared: true}},
		"API pod, node-critical":           {"api", "system-node-critical", ptr.To[int32](2_000_001_000), false, answers{true, true, true}},
		"API pod, cluster-critical":        {"api", "system-cluster-critical", ptr.To[int32](2_000_000_000), false, answers{preempts: true, spared: true}},
		"static pod":                       {"file", "", nil, false, answers{preempts: true}},
		"static pod of a user's class":     {"file", "high", nil, false, answers{preempts: true}},
		"static pod, node-critical":        {"file", "system-node-critical", nil, false, answers{true, true, true}},
		"static pod, cluster-critical":     {"http:site", "system-cluster-critical", nil, false, answers{preempts: true, spared: true}},
		"written pod":                      {"applied", "", nil, false, answers{}},
		"written pod of a user's class":    {"applied", "high", ptr.To[int32](1_000_000_000), false, answers{}},
		"written pod, node-critical":       {"applied", "system-node-critical", nil, false, answers{true, true, true}},
		"written pod of system priority":   {"applied", "", ptr.To[int32](2_000_000_000), false, answers{preempts: true, spared: true}},
		"mirror pod":                       {"api", "", nil, true, answers{preempts: true, spared: true}},
		"unknown source with a class only": {"", "system-node-critical", nil, false, answers{spared: true}},
	} {
		pod := &v1.Pod{ObjectMeta: metav1.ObjectMeta{Annotations: map[string]string{SourceAnnotation: tt.source}}}
		pod.Spec.PriorityClassName, pod.Spec.Priority = tt.class, tt.priority
		if tt.mirror {
			pod.Annotations[MirrorAnnotation] = "hash"
		}
		if got := (answers{Preempts(pod), SparedByEviction(pod), NodeCritical(pod)}); got != tt.want {
			t.Errorf("%s: %+v, want %+v", name, got, tt.want)
		}
	}
}

// TestAppliedBy: only a pod that podconfigd's own source "applied" has is a caller's, whatever its annotation is.
func TestAppliedBy(t *testing.T) {
	for source, want := range map[string]string{"applied": "alice", "file": "", "api": "", "relay": "", "applied:x": "", "": ""} {
		pod := &v1.Pod{ObjectMeta: metav1.ObjectMeta{Annotations: map[string]string{SourceAnnotation: source, AppliedByAnnotation: "alice"}}}
		if got := AppliedBy(pod); got != want {
			t.Errorf("a pod of the source %q is applied by %q; want %q", source, got, want)
		}
	}
}
