package apiexpansion

import (
	"encoding/json"
	"fmt"
	"slices"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/strategicpatch"
)

// maxMessage bounds the text of a driver in a condition of the claim.
const maxMessage = 1024

// resizing are the conditions of a resize, which end with it.
var resizing = []v1.PersistentVolumeClaimConditionType{
	v1.PersistentVolumeClaimResizing, v1.PersistentVolumeClaimFileSystemResizePending,
	v1.PersistentVolumeClaimControllerResizeError, v1.PersistentVolumeClaimNodeResizeError,
}

// inProgress returns the claim with an expansion that the node has begun.
func inProgress(claim *v1.PersistentVolumeClaim) *v1.PersistentVolumeClaim {
	return withProgress(claim.DeepCopy(), v1.PersistentVolumeClaimNodeResizeInProgress)
}

// finished returns the claim with its new size, and without anything about the resize.
func finished(claim *v1.PersistentVolumeClaim, to resource.Quantity) *v1.PersistentVolumeClaim {
	claim = claim.DeepCopy()
	if claim.Status.Capacity == nil {
		claim.Status.Capacity = v1.ResourceList{}
	}
	claim.Status.Capacity[v1.ResourceStorage] = to
	delete(claim.Status.AllocatedResourceStatuses, v1.ResourceStorage)
	if len(claim.Status.AllocatedResourceStatuses) == 0 {
		claim.Status.AllocatedResourceStatuses = nil
	}
	claim.Status.Conditions = slices.DeleteFunc(claim.Status.Conditions, func(c v1.PersistentVolumeClaimCondition) bool {
		return slices.Contains(resizing, c.Type)
	})
	return claim
}

// failed returns the claim with a condition for a driver's refusal. infeasible: the expansion has ended, and the resizer
// may try another size.
func failed(claim *v1.PersistentVolumeClaim, err error, infeasible bool, now metav1.Time) *v1.PersistentVolumeClaim {
	claim = claim.DeepCopy()
	if infeasible {
		claim = withProgress(claim, v1.PersistentVolumeClaimNodeResizeInfeasible)
	}
	is := func(c v1.PersistentVolumeClaimCondition) bool {
		return c.Type == v1.PersistentVolumeClaimNodeResizeError
	}
	old := slices.IndexFunc(claim.Status.Conditions, is)
	if old >= 0 && claim.Status.Conditions[old].Status == v1.ConditionTrue {
		return claim // As with the kubelet, the first failure's text stays.
	}
	claim.Status.Conditions = append(slices.DeleteFunc(claim.Status.Conditions, is), v1.PersistentVolumeClaimCondition{
		Type: v1.PersistentVolumeClaimNodeResizeError, Status: v1.ConditionTrue, LastTransitionTime: now,
		Message: fmt.Sprintf("failed to expand pvc with %.*s", maxMessage, err),
	})
	return claim
}

// withProgress sets how far the resize is.
func withProgress(claim *v1.PersistentVolumeClaim, is v1.ClaimResourceStatus) *v1.PersistentVolumeClaim {
	if claim.Status.AllocatedResourceStatuses == nil {
		claim.Status.AllocatedResourceStatuses = map[v1.ResourceName]v1.ClaimResourceStatus{}
	}
	claim.Status.AllocatedResourceStatuses[v1.ResourceStorage] = is
	return claim
}

// patch returns the difference of two claims as a strategic merge patch; nil: there is none. The patch conflicts with
// another claim of the same name and, if versioned is set, with a newer version.
func patch(before, after *v1.PersistentVolumeClaim, versioned bool) ([]byte, error) {
	from, err := json.Marshal(before)
	if err != nil {
		return nil, err
	}
	to, err := json.Marshal(after)
	if err != nil {
		return nil, err
	}
	data, err := strategicpatch.CreateTwoWayMergePatch(from, to, v1.PersistentVolumeClaim{})
	if err != nil || string(data) == "{}" {
		return nil, err
	}
	var all map[string]any
	if err := json.Unmarshal(data, &all); err != nil {
		return nil, err
	}
	meta := map[string]any{"uid": before.UID}
	if versioned {
		meta["resourceVersion"] = before.ResourceVersion
	}
	all["metadata"] = meta
	return json.Marshal(all)
}
