package execsvc

import (
	"testing"

	v1 "k8s.io/api/core/v1"

	"github.com/podstream/podstream/internal/execsvc/admit"
	"github.com/podstream/podstream/internal/execsvc/observed"
)

// Pods of an earlier life have their room before any other pod is looked at: what they were allocated, and not what they have come to ask
// for since.
func TestAdoptedPodsHaveTheirRoom(t *testing.T) {
	a := newAdmission(nil)
	node := admit.Node{Allocatable: amounts("4", "1Gi")}
	had := sized("a", 1, "2", "256Mi").Spec.Containers[0].Resources
	a.adopt(sized("a", 2, "3", "256Mi"), &v1.PodStatus{
		ObservedGeneration: 1, ContainerStatuses: []v1.ContainerStatus{{Name: "main", Resources: &had, AllocatedResources: had.Requests}},
	})
	if _, v := a.check(sized("b", 1, "3", "256Mi"), node, &observed.Pod{}, nil); !v.MayPass() {
		t.Errorf("%+v; want no room beside the one that runs", v)
	}
	if _, v := a.check(sized("c", 1, "2", "256Mi"), node, &observed.Pod{}, nil); len(v.Refused) > 0 {
		t.Errorf("%+v; want it to be let in", v)
	}
	// Until its resize is decided on, its status is that of the spec before.
	if pod := a.allocated(sized("a", 2, "3", "256Mi")); pod.Generation != 1 || pod.Spec.Containers[0].Resources.Requests.Cpu().Value() != 2 {
		t.Errorf("generation %d with %v", pod.Generation, pod.Spec.Containers[0].Resources)
	}
	d, v := a.check(sized("a", 2, "3", "256Mi"), node, &observed.Pod{}, nil)
	if len(v.Refused) > 0 || d.Pending != v1.PodReasonDeferred {
		t.Errorf("%+v, %+v; want it deferred", d, v)
	}
	if pod := a.allocated(sized("a", 2, "3", "256Mi")); pod.Generation != 2 || pod.Spec.Containers[0].Resources.Requests.Cpu().Value() != 2 {
		t.Errorf("generation %d with %v", pod.Generation, pod.Spec.Containers[0].Resources)
	}
	if got := a.waits(); len(got) != 2 {
		t.Errorf("%v wait; want b and a", got)
	}
}

// A change into what can't run at all is none of the pod's resources either: these are decided on once it can.
func TestRefusedChangeAllocatesNothing(t *testing.T) {
	a := newAdmission(nil)
	has := &observed.Pod{Sandboxes: []observed.Sandbox{{ID: "s", Ready: true}}}
	if _, v := a.check(sized("a", 1, "1", "256Mi"), admit.Node{}, has, nil); len(v.Refused) > 0 {
		t.Fatalf("%+v", v)
	}
	if _, v := a.check(withClaim(sized("a", 2, "2", "256Mi")), admit.Node{}, has, nil); len(v.Refused) == 0 {
		t.Fatal("it wasn't refused")
	}
	if d, v := a.check(sized("a", 3, "2", "256Mi"), admit.Node{}, has, nil); len(v.Refused) > 0 || !d.Begun {
		t.Errorf("%+v, %+v; want the resize to begin", d, v)
	}
}
