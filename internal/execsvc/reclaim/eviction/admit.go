package eviction

import (
	"fmt"
	"slices"
	"strings"

	v1 "k8s.io/api/core/v1"
	"k8s.io/klog/v2"

	"github.com/podstream/podstream/internal/execsvc/decide/admit"
	"github.com/podstream/podstream/internal/execsvc/pod/events"
	"github.com/podstream/podstream/internal/execsvc/pod/podmeta"
)

// admitUnder is the kubelet's rule. Under pressure only critical pods are admitted. Under memory pressure alone, pods
// that are not best-effort and pods that tolerate memory pressure are admitted too.
func admitUnder(has map[v1.NodeConditionType]bool, pod *v1.Pod) (why admit.Rejection, refused bool) {
	var names []string
	for _, c := range []v1.NodeConditionType{v1.NodeMemoryPressure, v1.NodeDiskPressure, v1.NodePIDPressure} {
		if has[c] {
			names = append(names, string(c))
		}
	}
	if len(names) == 0 || podmeta.SparedByEviction(pod) {
		return admit.Rejection{}, false
	}
	if memoryOnly := len(names) == 1 && has[v1.NodeMemoryPressure]; memoryOnly {
		if podmeta.QOSClass(pod) != v1.PodQOSBestEffort || toleratesMemoryPressure(pod) {
			return admit.Rejection{}, false
		}
	}
	return admit.Rejection{Reason: events.Evicted, Message: fmt.Sprintf("The node had condition: [%s]. ", strings.Join(names, " ")), Transient: true}, true
}

func toleratesMemoryPressure(pod *v1.Pod) bool {
	taint := v1.Taint{Key: v1.TaintNodeMemoryPressure, Effect: v1.TaintEffectNoSchedule}
	return slices.ContainsFunc(pod.Spec.Tolerations, func(t v1.Toleration) bool { return t.ToleratesTaint(klog.Logger{}, &taint, true) })
}
