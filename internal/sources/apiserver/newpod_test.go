package apiserver

import (
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// newPod returns a pod of the tests' node in namespace ns.
func newPod(name string) *v1.Pod {
	return &v1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: "ns", Name: name,
			ManagedFields: []metav1.ManagedFieldsEntry{{Manager: "kubectl", Operation: metav1.ManagedFieldsOperationUpdate}},
		},
		Spec:   v1.PodSpec{NodeName: node, Containers: []v1.Container{{Name: "c", Image: "image:1"}}},
		Status: v1.PodStatus{Phase: v1.PodPending},
	}
}

func withUID(p *v1.Pod, uid string) *v1.Pod {
	p.UID = types.UID(uid)
	return p
}

func onNode(p *v1.Pod, node string) *v1.Pod {
	p.Spec.NodeName = node
	return p
}
