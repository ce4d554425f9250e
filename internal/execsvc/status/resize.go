package status

import (
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	podresource "k8s.io/component-helpers/resource"

	"github.com/podstream/podstream/internal/execsvc/criconfig"
	"github.com/podstream/podstream/internal/execsvc/observed"
)

// setResize says how far a change of the pod's resources is. Of a pod that has ended there is nothing to say.
func setResize(in *Input, status *v1.PodStatus) {
	if terminal(status.Phase) {
		return
	}
	pending, progress := condition(in.Previous.Conditions, v1.PodResizePending), condition(in.Previous.Conditions, v1.PodResizeInProgress)
	if r := in.Resize; r != nil {
		pending, progress = r.pending(in, pending), r.progress(in, progress)
	}
	for _, c := range []*v1.PodCondition{pending, progress} {
		if c != nil {
			status.Conditions = append(status.Conditions, *c.DeepCopy())
		}
	}
}

func (r *Resize) pending(in *Input, before *v1.PodCondition) *v1.PodCondition {
	if r.Pending == "" {
		return nil
	}
	return reasoned(in, before, v1.PodCondition{Type: v1.PodResizePending, Reason: r.Pending, Message: r.Message})
}

// progress bears the generation for which the pod was allocated what it has, however often that was asked to change since.
func (r *Resize) progress(in *Input, before *v1.PodCondition) *v1.PodCondition {
	if !r.InProgress {
		return nil
	}
	if r.Begun {
		before = nil
	}
	c := v1.PodCondition{Type: v1.PodResizeInProgress}
	switch {
	case r.Error != "":
		c.Reason, c.Message = v1.PodReasonError, r.Error
	case before != nil:
		c.Reason, c.Message = before.Reason, before.Message
	}
	now := reasoned(in, before, c)
	if before != nil {
		now.ObservedGeneration = before.ObservedGeneration
	}
	return now
}

// reasoned is a condition that is true; unlike with others its time is that since which its reason is so.
func reasoned(in *Input, before *v1.PodCondition, c v1.PodCondition) *v1.PodCondition {
	c.Status, c.ObservedGeneration, c.LastTransitionTime = v1.ConditionTrue, in.Pod.Generation, stamp(in.Now)
	if before != nil && before.Reason == c.Reason {
		c.LastTransitionTime = before.LastTransitionTime
	}
	return &c
}

// setPodResources says what the pod was allocated, and, where it says something of its resources as a whole, what it has of that: until a
// change of it is done, what it had before.
func setPodResources(in *Input, status *v1.PodStatus) {
	if neverStarted(in) {
		return
	}
	requests, limits := criconfig.PodResources(in.Pod)
	if len(requests) > 0 {
		status.AllocatedResources = requests
	}
	switch before := in.Previous.Resources; {
	case !podresource.IsPodLevelResourcesSet(in.Pod):
	case before != nil && condition(status.Conditions, v1.PodResizeInProgress) != nil:
		status.Resources = before.DeepCopy()
	default:
		status.Resources = &v1.ResourceRequirements{Requests: requests.DeepCopy(), Limits: limits}
	}
}

// actualResources are those that the container is allocated, but for those of which the runtime tells otherwise. Where that is just what
// the allocated amount comes to, the amount stands as it was written: the kernel has other units, and least values.
func actualResources(c *v1.Container, has *observed.Container) *v1.ResourceRequirements {
	out := c.Resources.DeepCopy()
	if has.State != observed.Running || has.Resources == nil {
		return out
	}
	actual, period := has.Resources, time.Duration(has.Resources.CPUPeriod)*time.Microsecond
	if request, ok := out.Requests[v1.ResourceCPU]; ok && actual.CPUShares > 0 && actual.CPUShares != criconfig.CPUShares(request.MilliValue()) {
		out.Requests[v1.ResourceCPU] = *resource.NewMilliQuantity(criconfig.MilliCPU(actual.CPUShares), resource.DecimalSI)
	}
	if limit, ok := out.Limits[v1.ResourceCPU]; ok && period > 0 && actual.CPUQuota != criconfig.CPUQuota(limit.MilliValue(), period) {
		setLimit(out.Limits, v1.ResourceCPU, resource.NewMilliQuantity(actual.CPUQuota*1000/actual.CPUPeriod, resource.DecimalSI))
	}
	if limit, ok := out.Limits[v1.ResourceMemory]; ok && actual.MemoryLimit != limit.Value() {
		setLimit(out.Limits, v1.ResourceMemory, resource.NewQuantity(actual.MemoryLimit, resource.BinarySI))
	}
	return out
}

// setLimit sets a limit to what it is; zero or less is none.
func setLimit(limits v1.ResourceList, name v1.ResourceName, actual *resource.Quantity) {
	if actual.Sign() <= 0 {
		delete(limits, name)
		return
	}
	limits[name] = *actual
}
