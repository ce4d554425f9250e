package apistatus

import (
	"cmp"
	"slices"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	podstatus "github.com/podstream/podstream/internal/execsvc/decide/status"
	"github.com/podstream/podstream/internal/execsvc/pod/podmeta"
)

// mergeInput is the input of merge.
type mergeInput struct {
	// spec is the desired pod.
	spec *v1.Pod
	// own is podexecd's status, and there the API server's.
	own, there *v1.PodStatus
	// generation is the generation of the pod at the API server if it differs from the one here: a mirror pod's.
	// Zero: own has it.
	generation int64
	// mayRun is set while a container of the pod may still run. over is set once none does, or ever will.
	mayRun, over bool
	// static: such a pod need not have ended when it is over, because it starts again when it comes back.
	static bool
	now    metav1.Time
}

// merge returns the status that the API server should show. It is normalised.
func merge(in mergeInput) *v1.PodStatus {
	out := in.own.DeepCopy()
	if in.over {
		conclude(in.spec, out, in.static)
	}
	ends := podmeta.IsTerminal(out.Phase) && !podmeta.IsTerminal(in.there.Phase)
	if ends && in.mayRun {
		out.Phase, out.Reason, out.Message = in.there.Phase, in.there.Reason, in.there.Message
	}
	out.ObservedGeneration = max(cmp.Or(in.generation, out.ObservedGeneration), in.there.ObservedGeneration)
	if podmeta.IsTerminal(in.there.Phase) {
		keepEnd(out, in.there)
	}
	mergeConditions(out, &in, ends && !in.mayRun)
	if podmeta.IsTerminal(out.Phase) {
		unready(out, &in)
	}
	if in.there.StartTime != nil {
		out.StartTime = in.there.StartTime.DeepCopy()
	}
	// These parts aren't the node's. The server has set the QoS class for good.
	out.QOSClass = cmp.Or(in.there.QOSClass, out.QOSClass)
	out.ResourceClaimStatuses = in.there.ResourceClaimStatuses
	out.ExtendedResourceClaimStatus = in.there.ExtendedResourceClaimStatus
	out.NodeAllocatableResourceClaimStatuses = in.there.NodeAllocatableResourceClaimStatuses
	normalise(in.spec, out)
	return out
}

// mergeConditions merges the node's conditions with those of other clients, in the API server's order.
// DisruptionTarget is shared: another client may have set it first. ends is set if the status is the first one that
// says that the pod has ended.
func mergeConditions(out *v1.PodStatus, in *mergeInput, ends bool) {
	own := out.Conditions
	out.Conditions = nil
	for i := range in.there.Conditions {
		there := in.there.Conditions[i].DeepCopy()
		if ours := find(own, there.Type); ours != nil && (podstatus.Owns(there.Type) || (there.Type == v1.DisruptionTarget && ends)) {
			out.Conditions = append(out.Conditions, over(ours, there, in.generation))
		} else if !podstatus.Owns(there.Type) {
			out.Conditions = append(out.Conditions, *there)
		}
	}
	for i := range own {
		c := own[i]
		if find(out.Conditions, c.Type) != nil || (!podstatus.Owns(c.Type) && (c.Type != v1.DisruptionTarget || !ends)) {
			continue
		}
		out.Conditions = append(out.Conditions, over(&c, &v1.PodCondition{}, in.generation))
	}
}

// over returns the node's condition with the transition time of the API server's, if the status is the same and
// hasn't changed in between.
func over(own, there *v1.PodCondition, generation int64) v1.PodCondition {
	c := *own.DeepCopy()
	c.ObservedGeneration = max(cmp.Or(generation, c.ObservedGeneration), there.ObservedGeneration)
	if there.Status == c.Status && c.LastTransitionTime.Before(&there.LastTransitionTime) {
		c.LastTransitionTime = there.LastTransitionTime
	}
	return c
}

// keepEnd is for a pod that has ended at the API server. Its end stays, and so do the ends of its containers, even
// if the runtime no longer has them.
func keepEnd(out, there *v1.PodStatus) {
	if out.Phase != there.Phase {
		out.Reason, out.Message = "", ""
	}
	out.Phase, out.Reason, out.Message = there.Phase, cmp.Or(out.Reason, there.Reason), cmp.Or(out.Message, there.Message)
	keepEnded(&out.InitContainerStatuses, there.InitContainerStatuses)
	keepEnded(&out.ContainerStatuses, there.ContainerStatuses)
	keepEnded(&out.EphemeralContainerStatuses, there.EphemeralContainerStatuses)
}

// keepEnded keeps the statuses of containers that have ended there, and are missing or waiting here.
func keepEnded(out *[]v1.ContainerStatus, there []v1.ContainerStatus) {
	if len(*out) == 0 {
		for i := range there {
			*out = append(*out, *there[i].DeepCopy())
		}
		return
	}
	for i := range *out {
		s := &(*out)[i]
		if s.State.Terminated != nil || s.State.Running != nil {
			continue
		}
		at := slices.IndexFunc(there, func(t v1.ContainerStatus) bool { return t.Name == s.Name })
		if at >= 0 && there[at].State.Terminated != nil {
			there[at].DeepCopyInto(s)
		}
	}
}

// unready sets a pod that has ended to not ready.
func unready(out *v1.PodStatus, in *mergeInput) {
	reason := "PodFailed"
	if out.Phase == v1.PodSucceeded {
		reason = "PodCompleted"
	}
	for _, t := range []v1.PodConditionType{v1.ContainersReady, v1.PodReady} {
		c := find(out.Conditions, t)
		if c == nil || c.Status != v1.ConditionTrue {
			continue
		}
		c.Status, c.Reason, c.Message, c.LastTransitionTime = v1.ConditionFalse, reason, "", in.now
		if there := find(in.there.Conditions, t); there != nil && there.Status == c.Status {
			c.LastTransitionTime = there.LastTransitionTime
		}
	}
}

func find(conditions []v1.PodCondition, t v1.PodConditionType) *v1.PodCondition {
	for i := range conditions {
		if conditions[i].Type == t {
			return &conditions[i]
		}
	}
	return nil
}
