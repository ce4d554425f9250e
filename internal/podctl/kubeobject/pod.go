package kubeobject

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podstream/podstream/internal/podctl/podsummary"
)

// List is a list of objects, as kubectl prints it.
type List struct {
	APIVersion string   `json:"apiVersion"`
	Kind       string   `json:"kind"`
	Metadata   struct{} `json:"metadata"`
	Items      []any    `json:"items"`
}

// NewList returns a list.
func NewList[T any](items []T) List {
	list := List{APIVersion: "v1", Kind: "List", Items: make([]any, 0, len(items))}
	for _, item := range items {
		list.Items = append(list.Items, item)
	}
	return list
}

// Pod returns the pod with the observed status, or with that of its source if podexecd doesn't have the pod. A pod that isn't
// desired has only its name, UID and status.
func Pod(p *podsummary.Pod) *corev1.Pod {
	pod := &corev1.Pod{}
	if p.Content != nil {
		pod = p.Content.DeepCopy()
	}
	pod.TypeMeta = metav1.TypeMeta{APIVersion: "v1", Kind: "Pod"}
	pod.Namespace, pod.Name, pod.UID = p.Ref.GetNamespace(), p.Ref.GetName(), types.UID(p.Ref.GetUid())
	if p.Status != nil {
		pod.Status = *p.Status.DeepCopy()
	}
	return pod
}

// PodFields are the fields of a pod that a field selector takes: those of Kubernetes.
func PodFields(p *corev1.Pod) fields.Set {
	return fields.Set{
		"metadata.name": p.Name, "metadata.namespace": p.Namespace, "spec.nodeName": p.Spec.NodeName,
		"spec.restartPolicy": string(p.Spec.RestartPolicy), "spec.schedulerName": p.Spec.SchedulerName,
		"spec.serviceAccountName": p.Spec.ServiceAccountName, "status.phase": string(p.Status.Phase), "status.podIP": p.Status.PodIP,
		"status.nominatedNodeName": p.Status.NominatedNodeName,
	}
}
