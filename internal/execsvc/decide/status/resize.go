package status

import (
	"maps"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/utils/ptr"

	"github.com/podstream/podstream/internal/execsvc/pod/criconfig"
	"github.com/podstream/podstream/internal/execsvc/pod/observed"
	"github.com/podstream/podstream/internal/execsvc/pod/podmeta"
)

// setResize sets the conditions of a resize. A pod that has ended has none.
func setResize(in *Input, status *v1.PodStatus) {
	if podmeta.IsTerminal(status.Phase) {
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

// progress has the generation for which the pod got its present allocation, however often the spec has changed since.
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

// reasoned returns a condition that is true. Its transition time is that of its reason, unlike that of other
// conditions.
func reasoned(in *Input, before *v1.PodCondition, c v1.PodCondition) *v1.PodCondition {
	c.Status, c.ObservedGeneration, c.LastTransitionTime = v1.ConditionTrue, in.Pod.Generation, stamp(in.Now)
	if before != nil && before.Reason == c.Reason {
		c.LastTransitionTime = before.LastTransitionTime
	}
	return &c
}

// setPodResources sets the pod's resources, at the level of the pod: the allocated and the actual ones. Of a pod that runs,
// the actual ones are CPU and memory as its cgroup has them, without limits that not all containers have, and the others
// that its spec has at the level of the pod; until a change is done, they are the previous ones.
func setPodResources(in *Input, status *v1.PodStatus) {
	if neverStarted(in) {
		return
	}
	requests, limits := criconfig.PodResources(in.Pod)
	if len(requests) > 0 {
		status.AllocatedResources = requests
	}
	if before := in.Previous.Resources; before != nil && condition(status.Conditions, v1.PodResizeInProgress) != nil {
		status.Resources = before.DeepCopy()
		return
	}
	status.Resources = &v1.ResourceRequirements{Requests: requests.DeepCopy(), Limits: limits}
	if status.Phase != v1.PodRunning {
		return
	}
	own := ptr.Deref(in.Pod.Spec.Resources, v1.ResourceRequirements{})
	shown := func(list, own v1.ResourceList, ofCgroup func(v1.ResourceName) bool) {
		maps.DeleteFunc(list, func(name v1.ResourceName, _ resource.Quantity) bool {
			if name == v1.ResourceCPU || name == v1.ResourceMemory {
				return !ofCgroup(name)
			}
			_, has := own[name]
			return !has
		})
	}
	shown(status.Resources.Requests, own.Requests, func(v1.ResourceName) bool { return true })
	shown(status.Resources.Limits, own.Limits, func(name v1.ResourceName) bool { return criconfig.AllLimit(in.Pod, name) })
}

// actualResources returns the container's allocated resources, with the differing ones that the runtime reports. Where
// the runtime's value is what the allocated amount converts to, the amount stays as written: the kernel has other
// units, and least values.
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

// setLimit sets a limit to its actual value; zero or less is none.
func setLimit(limits v1.ResourceList, name v1.ResourceName, actual *resource.Quantity) {
	if actual.Sign() <= 0 {
		delete(limits, name)
		return
	}
	limits[name] = *actual
}
