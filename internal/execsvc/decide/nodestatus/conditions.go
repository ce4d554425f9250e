package nodestatus

import (
	"fmt"
	"slices"
	"strings"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	utilerrors "k8s.io/apimachinery/pkg/util/errors"
)

// conditions returns the node agent's own conditions. Ready is the last one: old readers expect it there in a new Node.
func conditions(f Facts, capacity v1.ResourceList, now time.Time) []v1.NodeCondition {
	return []v1.NodeCondition{
		choose(f.Pressure.Memory,
			v1.NodeCondition{Type: v1.NodeMemoryPressure, Reason: "KubeletHasInsufficientMemory", Message: "kubelet has insufficient memory available"},
			v1.NodeCondition{Type: v1.NodeMemoryPressure, Reason: "KubeletHasSufficientMemory", Message: "kubelet has sufficient memory available"}),
		choose(f.Pressure.Disk,
			v1.NodeCondition{Type: v1.NodeDiskPressure, Reason: "KubeletHasDiskPressure", Message: "kubelet has disk pressure"},
			v1.NodeCondition{Type: v1.NodeDiskPressure, Reason: "KubeletHasNoDiskPressure", Message: "kubelet has no disk pressure"}),
		choose(f.Pressure.PID,
			v1.NodeCondition{Type: v1.NodePIDPressure, Reason: "KubeletHasInsufficientPID", Message: "kubelet has insufficient PID available"},
			v1.NodeCondition{Type: v1.NodePIDPressure, Reason: "KubeletHasSufficientPID", Message: "kubelet has sufficient PID available"}),
		ready(f, capacity, now),
	}
}

// choose returns yes with the status True, or no with the status False.
func choose(so bool, yes, no v1.NodeCondition) v1.NodeCondition {
	if so {
		yes.Status = v1.ConditionTrue
		return yes
	}
	no.Status = v1.ConditionFalse
	return no
}

func ready(f Facts, capacity v1.ResourceList, now time.Time) v1.NodeCondition {
	errs := append(f.Runtime.Errors(now), f.NotReady...)
	required := []v1.ResourceName{v1.ResourceCPU, v1.ResourceMemory, v1.ResourcePods}
	if f.LocalStorage {
		required = append(required, v1.ResourceEphemeralStorage)
	}
	var missing []string
	for _, name := range required {
		if _, known := capacity[name]; !known {
			missing = append(missing, string(name))
		}
	}
	if len(missing) > 0 {
		errs = append(errs, fmt.Errorf("missing node capacity for resources: %s", strings.Join(missing, ", ")))
	}
	c := v1.NodeCondition{Type: v1.NodeReady, Status: v1.ConditionTrue, Reason: "KubeletReady", Message: "kubelet is posting ready status"}
	if err := utilerrors.NewAggregate(errs); err != nil {
		c.Status, c.Reason, c.Message = v1.ConditionFalse, "KubeletNotReady", err.Error()
	}
	if f.Info.NoCPUQuota {
		c.Message += ". WARNING: CPU hardcapping unsupported"
	}
	return c
}

// withCondition returns the list with the condition in its place, or at the end. Only a new status is a transition.
func withCondition(list []v1.NodeCondition, c v1.NodeCondition, now metav1.Time) []v1.NodeCondition {
	c.LastHeartbeatTime, c.LastTransitionTime = now, now
	i := slices.IndexFunc(list, func(o v1.NodeCondition) bool { return o.Type == c.Type })
	if i < 0 {
		return append(list, c)
	}
	if list[i].Status == c.Status {
		c.LastTransitionTime = list[i].LastTransitionTime
	}
	list[i] = c
	return list
}

// Condition returns the status of a condition; Unknown if it isn't there.
func Condition(s *v1.NodeStatus, name v1.NodeConditionType) v1.ConditionStatus {
	for _, c := range s.Conditions {
		if c.Type == name {
			return c.Status
		}
	}
	return v1.ConditionUnknown
}
