package kubeobject

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/types"

	podexecv1 "github.com/podstream/podstream/proto/podexec/v1"
)

// Event returns the event as the kubelet records it at the API server. It has no name.
func Event(e *podexecv1.PodEvent) *corev1.Event {
	ref := e.GetRef()
	event := &corev1.Event{
		TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "Event"},
		ObjectMeta: metav1.ObjectMeta{Namespace: ref.GetNamespace()},
		InvolvedObject: corev1.ObjectReference{
			APIVersion: "v1", Kind: "Pod", Namespace: ref.GetNamespace(), Name: ref.GetName(), UID: types.UID(ref.GetUid()),
			FieldPath: ContainerField(e.GetContainer()),
		},
		Type: e.GetType(), Reason: e.GetReason(), Message: e.GetMessage(), Count: e.GetCount(), Source: corev1.EventSource{Component: "kubelet"},
	}
	if first := e.GetFirstTime(); first != nil {
		event.FirstTimestamp = metav1.NewTime(first.AsTime())
	}
	if last := e.GetLastTime(); last != nil {
		event.LastTimestamp = metav1.NewTime(last.AsTime())
	}
	return event
}

// ContainerField returns the field path of v1.Event for the container; empty for an event of the pod.
func ContainerField(name string) string {
	if name == "" {
		return ""
	}
	return "spec.containers{" + name + "}"
}

// EventFields are the fields of an event that a field selector takes.
func EventFields(e *podexecv1.PodEvent) fields.Set {
	ref := e.GetRef()
	return fields.Set{
		"involvedObject.kind": "Pod", "involvedObject.namespace": ref.GetNamespace(), "involvedObject.name": ref.GetName(),
		"involvedObject.uid": ref.GetUid(), "metadata.namespace": ref.GetNamespace(), "type": e.GetType(), "reason": e.GetReason(),
	}
}
