package resize

import (
	"fmt"
	"slices"

	v1 "k8s.io/api/core/v1"

	"github.com/podstream/podstream/internal/execsvc/admit"
	"github.com/podstream/podstream/internal/execsvc/criconfig"
)

// Input is what Decide goes by.
type Input struct {
	// Pod is the pod as it is desired; Allocated is it as it was last decided to run.
	Pod, Allocated *v1.Pod
	Node           admit.Node
	// Others are the other pods that were admitted and haven't ended, with what they are allocated.
	Others []*v1.Pod
	// Swaps tells whether a container may use swap. Nil: none may.
	Swaps func(pod *v1.Pod, c *v1.Container) bool
}

// Decision is with which resources a pod is to run.
type Decision struct {
	// Pod is the desired pod with the resources that it is allocated now.
	Pod *v1.Pod
	// Pending is why these aren't those that it asks for: v1.PodReasonDeferred or v1.PodReasonInfeasible, with a message. Empty: they are.
	Pending, Message string
	// Begun is set if they are others than before.
	Begun bool
}

// Decide allocates what the pod asks for if there is room, and leaves it what it has if there isn't.
func Decide(in Input) Decision {
	if in.Pod.Generation == 0 || Same(in.Pod, in.Allocated) {
		return Decision{Pod: in.Pod}
	}
	pending := func(reason, message string) Decision {
		return Decision{Pod: Held(in.Pod, in.Allocated), Pending: reason, Message: message}
	}
	if in.resizesSwap() {
		return pending(v1.PodReasonInfeasible, "In-place resize of containers with swap is not supported.")
	}
	if !Grows(in.Pod, in.Allocated) {
		// Nobody has less room for it, however full the node is.
		return Decision{Pod: in.Pod, Begun: true}
	}
	if why := beyond(in.Pod, in.Node.Allocatable); why != "" {
		return pending(v1.PodReasonInfeasible, why)
	}
	// Nobody has to end for a resize, however critical the pod.
	ordinary := *in.Pod
	ordinary.Spec.Priority = nil
	verdict := admit.Check(&ordinary, in.Node, in.Others)
	switch {
	case len(verdict.Refused) > 0:
		return pending(v1.PodReasonDeferred, verdict.Refused[0].Message)
	case len(verdict.Preempt) > 0:
		return pending(v1.PodReasonDeferred, "Node didn't have enough resource")
	}
	return Decision{Pod: in.Pod, Begun: true}
}

// beyond says what the pod asks for that the node wouldn't have if no other pod were there; empty if that is nothing.
func beyond(pod *v1.Pod, allocatable v1.ResourceList) string {
	requests, _ := criconfig.PodResources(pod)
	for _, name := range []v1.ResourceName{v1.ResourceMemory, v1.ResourceCPU} {
		asked, capacity := requests[name], allocatable[name]
		if _, known := allocatable[name]; !known || asked.Cmp(capacity) <= 0 {
			continue
		}
		amounts := [2]int64{asked.Value(), capacity.Value()}
		if name == v1.ResourceCPU {
			amounts = [2]int64{asked.MilliValue(), capacity.MilliValue()}
		}
		return fmt.Sprintf("Node didn't have enough capacity: %s, requested: %d, capacity: %d", name, amounts[0], amounts[1])
	}
	return ""
}

// resizesSwap tells whether a container would be given another part of the node's swap while it runs: that part follows its memory request.
func (in *Input) resizesSwap() bool {
	if in.Swaps == nil {
		return false
	}
	now := containers(in.Pod)
	return slices.ContainsFunc(containers(in.Allocated), func(before *v1.Container) bool {
		i := slices.IndexFunc(now, func(c *v1.Container) bool { return c.Name == before.Name })
		if i < 0 || now[i].Resources.Requests.Memory().Equal(*before.Resources.Requests.Memory()) || criconfig.RestartsFor(before, v1.ResourceMemory) {
			return false
		}
		return in.Swaps(in.Pod, now[i]) || in.Swaps(in.Allocated, before)
	})
}
