package resize

import (
	"slices"

	v1 "k8s.io/api/core/v1"

	"github.com/podstream/podstream/internal/execsvc/decide/admit"
	"github.com/podstream/podstream/internal/execsvc/pod/criconfig"
)

// Input is the input of Decide.
type Input struct {
	// Pod is the desired pod; Allocated is the pod with its present allocation.
	Pod, Allocated *v1.Pod
	Node           admit.Node
	// Others are the other admitted pods that haven't ended, with their allocations.
	Others []*v1.Pod
	// Pressure returns why the node gives no pod more now: it is short of a resource, or shuts down. Nil: it never is.
	Pressure func(pod *v1.Pod) (why admit.Rejection, short bool)
	// Swaps reports whether a container may use swap. Nil: none may.
	Swaps func(pod *v1.Pod, c *v1.Container) bool
}

// Decision has the resources that a pod runs with.
type Decision struct {
	// Pod is the desired pod with the resources that it is allocated now.
	Pod *v1.Pod
	// Pending is why these aren't the desired ones: v1.PodReasonDeferred or v1.PodReasonInfeasible, with a message.
	// Empty: they are.
	Pending, Message string
	// Begun is set if the allocation has changed.
	Begun bool
}

// Decide allocates the desired resources if they are free. Otherwise the pod keeps its allocation. Resources that the
// node can never have free are deferred too, as with the kubelet since 1.37: the node may get more.
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
		// It takes nothing from other pods, however full the node is.
		return Decision{Pod: in.Pod, Begun: true}
	}
	if in.Pressure != nil {
		if why, short := in.Pressure(in.Pod); short {
			return pending(v1.PodReasonDeferred, why.Message)
		}
	}
	// No pod is preempted for a resize, however critical the resized pod is.
	ordinary := *in.Pod
	ordinary.Spec.Priority = nil
	verdict := admit.Check(&ordinary, in.Node, in.Others)
	switch {
	case len(verdict.Rejected) > 0:
		return pending(v1.PodReasonDeferred, verdict.Rejected[0].Message)
	case len(verdict.Preempt) > 0:
		return pending(v1.PodReasonDeferred, "Node didn't have enough resource")
	}
	return Decision{Pod: in.Pod, Begun: true}
}

// resizesSwap reports whether a running container would get another part of the node's swap: that part follows its
// memory request.
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
