package apistatus

import (
	"cmp"
	"slices"
	"strings"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// messageBytes is the limit of all termination messages of a pod together.
const messageBytes = 12 * 1024

// normalise converts a status so that the API server's copy and podexecd's can be compared: whole seconds, and
// statuses in the kubelet's order, init containers as in the pod and others by name.
func normalise(pod *v1.Pod, status *v1.PodStatus) {
	words := messageBytes / max(1, len(pod.Spec.Containers)+len(pod.Spec.InitContainers)+len(pod.Spec.EphemeralContainers))
	if status.StartTime != nil {
		seconds(status.StartTime)
	}
	for i := range status.Conditions {
		seconds(&status.Conditions[i].LastProbeTime)
		seconds(&status.Conditions[i].LastTransitionTime)
	}
	for _, statuses := range [][]v1.ContainerStatus{status.InitContainerStatuses, status.ContainerStatuses, status.EphemeralContainerStatuses} {
		for i := range statuses {
			normaliseState(&statuses[i].State, words)
			normaliseState(&statuses[i].LastTerminationState, words)
		}
	}
	byName := func(a, b v1.ContainerStatus) int { return cmp.Compare(a.Name, b.Name) }
	slices.SortStableFunc(status.ContainerStatuses, byName)
	slices.SortStableFunc(status.EphemeralContainerStatuses, byName)
	place := map[string]int{}
	for i := range pod.Spec.InitContainers {
		place[pod.Spec.InitContainers[i].Name] = i
	}
	slices.SortStableFunc(status.InitContainerStatuses, func(a, b v1.ContainerStatus) int { return cmp.Compare(place[a.Name], place[b.Name]) })
}

func normaliseState(s *v1.ContainerState, words int) {
	if s.Running != nil {
		seconds(&s.Running.StartedAt)
	}
	if t := s.Terminated; t != nil {
		seconds(&t.StartedAt)
		seconds(&t.FinishedAt)
		// The API server would replace an invalid or cut UTF-8 sequence.
		t.Message = strings.ToValidUTF8(t.Message[:min(len(t.Message), words)], "")
	}
}

func seconds(t *metav1.Time) { *t = t.Rfc3339Copy() }

// same reports whether the API server's copy equals the merged status.
func same(pod *v1.Pod, there, merged *v1.PodStatus) bool {
	there = there.DeepCopy()
	normalise(pod, there)
	return equality.Semantic.DeepEqual(there, merged)
}
