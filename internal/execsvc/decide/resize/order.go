package resize

import (
	"cmp"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"

	"github.com/podstream/podstream/internal/execsvc/pod/criconfig"
	"github.com/podstream/podstream/internal/execsvc/pod/podmeta"
)

// Waiting is a pod whose resize must be decided on.
type Waiting struct {
	// Pod is the desired pod; Allocated is the pod with its present allocation.
	Pod, Allocated *v1.Pod
	// Since is when it started to wait.
	Since time.Time
}

// Compare is the order in which resizes are tried when resources become free, the kubelet's: first those that grow
// nothing, then by the pod's priority, then those of guaranteed pods, then those that have waited longest.
func Compare(a, b Waiting) int {
	return cmp.Or(
		cmp.Compare(steps(Grows(a.Pod, a.Allocated)), steps(Grows(b.Pod, b.Allocated))),
		cmp.Compare(ptr.Deref(b.Pod.Spec.Priority, 0), ptr.Deref(a.Pod.Spec.Priority, 0)),
		cmp.Compare(steps(!guaranteed(a.Pod)), steps(!guaranteed(b.Pod))),
		a.Since.Compare(b.Since),
		cmp.Compare(a.Pod.UID, b.Pod.UID),
	)
}

// steps returns 1 if the property puts a pod back, else 0.
func steps(back bool) int {
	if back {
		return 1
	}
	return 0
}

func guaranteed(pod *v1.Pod) bool { return podmeta.QOSClass(pod) == v1.PodQOSGuaranteed }

// Grows reports whether a version of a pod has more of any resource than another.
func Grows(pod, than *v1.Pod) bool {
	asked, _ := criconfig.PodResources(pod)
	had, _ := criconfig.PodResources(than)
	return asked.Cpu().Cmp(*had.Cpu()) > 0 || asked.Memory().Cmp(*had.Memory()) > 0
}
