package status

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
)

func quantity(s string) *resource.Quantity {
	q := resource.MustParse(s)
	return &q
}

func TestContainerResources(t *testing.T) {
	pod := podOf(always, "a")
	pod.Spec.Containers[0].Resources = v1.ResourceRequirements{
		Requests: v1.ResourceList{v1.ResourceCPU: *quantity("100m")}, Limits: v1.ResourceList{v1.ResourceCPU: *quantity("1")},
	}
	s := Generate(in(pod, has(running("a")))).ContainerStatuses[0]
	if diff := cmp.Diff(&pod.Spec.Containers[0].Resources, s.Resources); diff != "" {
		t.Errorf("resources (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(pod.Spec.Containers[0].Resources.Requests, s.AllocatedResources); diff != "" {
		t.Errorf("allocated (-want +got):\n%s", diff)
	}
	if s := Generate(in(pod, nil)).ContainerStatuses[0]; s.Resources != nil || s.AllocatedResources != nil {
		t.Errorf("one that isn't made has resources: %+v", s)
	}
}
