package admit

import (
	"cmp"
	"time"

	v1 "k8s.io/api/core/v1"
)

// seenAnnotation is set on every pod by podconfigd's merge: when it first saw the pod.
const seenAnnotation = "kubernetes.io/config.seen"

// Compare is the order in which pods that want the same room are admitted: critical ones first, as others would only have to end for them,
// and then by their age, as in the kubelet's HandlePodAdditions. Of two of one age the lesser UID comes first, so that each start of this
// agent admits the same ones.
func Compare(a, b *v1.Pod) int {
	return cmp.Or(compareCritical(a, b), created(a).Compare(created(b)), cmp.Compare(a.UID, b.UID))
}

func compareCritical(a, b *v1.Pod) int {
	switch first, second := Critical(a), Critical(b); {
	case first == second:
		return 0
	case first:
		return -1
	}
	return 1
}

// created is when the pod was created. A static pod doesn't tell; it counts from when podconfigd first saw it. Zero: nobody knows.
func created(pod *v1.Pod) time.Time {
	if !pod.CreationTimestamp.IsZero() {
		return pod.CreationTimestamp.Time
	}
	seen, err := time.Parse(time.RFC3339Nano, pod.Annotations[seenAnnotation])
	if err != nil {
		return time.Time{}
	}
	return seen
}
