package resize

import (
	"cmp"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"

	"github.com/podstream/podstream/internal/execsvc/criconfig"
)

// Waiting is a pod whose resize is to be decided upon.
type Waiting struct {
	// Pod is the pod as it is desired; Allocated is it as it was last decided to run.
	Pod, Allocated *v1.Pod
	// Since is when it first had to wait.
	Since time.Time
}

// Compare is the order in which resizes are tried when room comes free, the kubelet's: those that need none of it, then those of pods with
// a higher priority, then those of guaranteed pods, then those that have waited longest.
func Compare(a, b Waiting) int {
	return cmp.Or(
		cmp.Compare(steps(Grows(a.Pod, a.Allocated)), steps(Grows(b.Pod, b.Allocated))),
		cmp.Compare(ptr.Deref(b.Pod.Spec.Priority, 0), ptr.Deref(a.Pod.Spec.Priority, 0)),
		cmp.Compare(steps(!guaranteed(a.Pod)), steps(!guaranteed(b.Pod))),
		a.Since.Compare(b.Since),
		cmp.Compare(a.Pod.UID, b.Pod.UID),
	)
}

// steps is how far back a property puts a pod.
func steps(back bool) int {
	if back {
		return 1
	}
	return 0
}

func guaranteed(pod *v1.Pod) bool { return criconfig.QOSClass(pod) == v1.PodQOSGuaranteed }

// Grows tells whether a version of a pod asks for more of something than another.
func Grows(pod, than *v1.Pod) bool {
	asked, _ := criconfig.PodResources(pod)
	had, _ := criconfig.PodResources(than)
	return asked.Cpu().Cmp(*had.Cpu()) > 0 || asked.Memory().Cmp(*had.Memory()) > 0
}
