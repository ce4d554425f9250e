package admit

import (
	"cmp"
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/podstream/podstream/internal/execsvc/pod/podmeta"
)

// Compare is the order in which waiting pods are admitted: critical pods first, so that no pod is admitted and then
// preempted for them, and then by age, as in the kubelet's HandlePodAdditions. Pods of one age are ordered by UID, so
// that each start of podexecd admits the same ones.
func Compare(a, b *v1.Pod) int {
	return cmp.Or(comparePreempts(a, b), created(a).Compare(created(b)), cmp.Compare(a.UID, b.UID))
}

func comparePreempts(a, b *v1.Pod) int {
	switch first, second := podmeta.Preempts(a), podmeta.Preempts(b); {
	case first == second:
		return 0
	case first:
		return -1
	}
	return 1
}

// created returns when the pod was created. For a static pod that is when podconfigd first read it. Zero: it is
// unknown.
func created(pod *v1.Pod) time.Time {
	if !pod.CreationTimestamp.IsZero() {
		return pod.CreationTimestamp.Time
	}
	seen, err := time.Parse(time.RFC3339Nano, pod.Annotations[podmeta.SeenAnnotation])
	if err != nil {
		return time.Time{}
	}
	return seen
}
