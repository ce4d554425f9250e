package pressure

import (
	"fmt"
	"slices"
	"strings"

	v1 "k8s.io/api/core/v1"
	"k8s.io/klog/v2"
	"k8s.io/utils/ptr"

	"github.com/podstream/podstream/internal/execsvc/admit"
	"github.com/podstream/podstream/internal/execsvc/criconfig"
	"github.com/podstream/podstream/internal/execsvc/events"
)

// criticalClasses are the priority classes of the pods that a cluster can't do without. A static pod's priority is nobody's to compute.
var criticalClasses = []string{"system-node-critical", "system-cluster-critical"}

// Admit tells why a pod that isn't here yet can't come now; refused is false if it can. Whom pressure would evict again isn't let in: a static pod
// as little as any other, unless it says that it is critical. It is offered again.
func (m *Manager) Admit(pod *v1.Pod) (why admit.Refusal, refused bool) {
	return admission(m.conditions(), pod)
}

// admission is the kubelet's rule: under pressure critical pods only; while memory alone is short, others too that have asked for what they need,
// or that say that they can bear it.
func admission(has map[v1.NodeConditionType]bool, pod *v1.Pod) (why admit.Refusal, refused bool) {
	var names []string
	for _, c := range []v1.NodeConditionType{v1.NodeMemoryPressure, v1.NodeDiskPressure, v1.NodePIDPressure} {
		if has[c] {
			names = append(names, string(c))
		}
	}
	if len(names) == 0 || Critical(pod) {
		return admit.Refusal{}, false
	}
	if memoryOnly := len(names) == 1 && has[v1.NodeMemoryPressure]; memoryOnly {
		if criconfig.QOSClass(pod) != v1.PodQOSBestEffort || toleratesMemoryPressure(pod) {
			return admit.Refusal{}, false
		}
	}
	return admit.Refusal{Reason: events.Evicted, Message: fmt.Sprintf("The node had condition: [%s]. ", strings.Join(names, " ")), Passing: true}, true
}

// Critical tells whether pressure spares the pod. The kubelet never evicts a static pod, as it doesn't start it again; this agent does, so a static
// pod is critical only if it says so.
func Critical(pod *v1.Pod) bool {
	_, mirror := pod.Annotations[v1.MirrorPodAnnotationKey]
	return mirror || ptr.Deref(pod.Spec.Priority, 0) >= admit.SystemCriticalPriority || slices.Contains(criticalClasses, pod.Spec.PriorityClassName)
}

func toleratesMemoryPressure(pod *v1.Pod) bool {
	taint := v1.Taint{Key: v1.TaintNodeMemoryPressure, Effect: v1.TaintEffectNoSchedule}
	return slices.ContainsFunc(pod.Spec.Tolerations, func(t v1.Toleration) bool { return t.ToleratesTaint(klog.Logger{}, &taint, true) })
}
