package status

import (
	"slices"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/podstream/podstream/internal/execsvc/decide/actions"
	"github.com/podstream/podstream/internal/execsvc/decide/admit"
	"github.com/podstream/podstream/internal/execsvc/pod/observed"
	"github.com/podstream/podstream/internal/execsvc/pod/podmeta"
)

// Input is the input of Generate.
type Input struct {
	Pod *v1.Pod
	// Runtime is the pod's state from Runtime.Status. Nil if the runtime has nothing of it, or the state isn't known.
	Runtime *observed.Pod
	// RuntimeName comes before the "://" of container IDs: "containerd".
	RuntimeName string
	// Probes are the results of its containers' probes.
	Probes observed.Probes
	// Requested are containers whose restart an operator has requested: they start again, whatever their restart policy.
	Requested actions.Requested
	// Waiting has the reason, by container name, why a container can't start or restart now. It counts only for those
	// that should. Nil: no start was tried since Previous, and the reasons of Previous stand.
	Waiting map[string]observed.Waiting
	// Resize is the progress of a change of the pod's resources. Nil: it wasn't checked since Previous, and the
	// conditions of Previous stand.
	Resize *Resize
	// Terminal is set if the pod was stopped and starts no containers any more, whatever its restart policy.
	Terminal bool
	// Ending is set while the node stops the pod, until Failure is set: the phase doesn't become terminal meanwhile.
	// So a pod whose containers have stopped before its sandbox ends in the same way as one that stops at once.
	Ending bool
	// Failure is why the pod was rejected or stopped by the node; nil if it wasn't.
	Failure *Failure
	// Previous is the previous status. Nil: that of Pod is used, if it has one.
	Previous *v1.PodStatus
	// RecursiveReadOnly reports whether the runtime supports recursive read-only mounts. Nil: it doesn't.
	RecursiveReadOnly func() bool
	// HostIPs are the node's IPs, the primary one first.
	HostIPs []string
	Now     time.Time

	facts
}

// Failure is why a pod has failed as a whole.
type Failure struct {
	Reason, Message string
	// Disrupted is set if the node's needs end the pod (an eviction, say), and not its own failure. It sets the
	// condition DisruptionTarget for the pod's owner.
	Disrupted bool
	// Rejected is set if the pod was rejected at admission.
	Rejected bool
}

// Resize is the progress of a change of a pod's resources.
type Resize struct {
	// Pending is why the pod isn't allocated its desired resources: v1.PodReasonDeferred or v1.PodReasonInfeasible,
	// with a message. Empty: it is.
	Pending, Message string
	// InProgress is set while running containers don't have the pod's allocation. Begun is set if the allocation is
	// new: errors of the previous change don't count any more. Otherwise an error stays until the change is done or
	// meets another one.
	InProgress, Begun bool
	Error             string
}

// Generate returns the pod's status. Two calls with the same input, except for Now, and with the first result as
// Previous give equal statuses.
func Generate(in Input) v1.PodStatus {
	if in.Previous == nil {
		in.Previous = &in.Pod.Status
	}
	if in.Runtime == nil {
		in.Runtime = &observed.Pod{UID: in.Pod.UID}
	}
	in.Runtime = in.Requested.Mark(in.Runtime)
	in.facts = factsOf(&in)
	status := v1.PodStatus{
		ObservedGeneration: in.Pod.Generation,
		QOSClass:           podmeta.QOSClass(in.Pod),
		StartTime:          startTime(&in),
	}
	if rejectedAtFirst(&in) {
		setPhase(&in, &status)
		return status
	}
	if !neverStarted(&in) {
		setContainers(&in, &status)
	}
	setPhase(&in, &status)
	setAddresses(&in, &status)
	setConditions(&in, &status)
	setPodResources(&in, &status)
	return status
}

// rejectedAtFirst reports whether the pod is or was rejected before a container was created or had to be. As with the
// kubelet, its status says nothing of containers and conditions then.
func rejectedAtFirst(in *Input) bool {
	rejected := in.Failure == nil && in.Previous.Phase == v1.PodFailed && admit.Rejected(in.Previous) ||
		in.Failure != nil && in.Failure.Rejected && in.Previous.Phase != v1.PodSucceeded
	return rejected && len(in.Runtime.Containers) == 0 &&
		!slices.ContainsFunc(slices.Concat(in.Previous.InitContainerStatuses, in.Previous.ContainerStatuses), begunBefore)
}

// begunBefore reports whether the container has been created before.
func begunBefore(s v1.ContainerStatus) bool {
	return s.ContainerID != "" || s.State.Waiting == nil || s.LastTerminationState.Terminated != nil
}

// neverStarted reports whether the pod was rejected before any container was created. Then it has no container
// statuses.
func neverStarted(in *Input) bool {
	return in.Failure != nil && len(in.Runtime.Containers) == 0 &&
		len(in.Previous.ContainerStatuses) == 0 && len(in.Previous.InitContainerStatuses) == 0
}

// startTime returns when a node agent first saw the pod.
func startTime(in *Input) *metav1.Time {
	for _, status := range []*v1.PodStatus{in.Previous, &in.Pod.Status} {
		if status.StartTime != nil {
			return status.StartTime.DeepCopy()
		}
	}
	// After a restart of the agent the creation of the pod's first sandbox is still known.
	at := stamp(in.Runtime.Begun(in.Now))
	return &at
}

// stamp returns t in whole seconds, as in the API, so that a status that was stored and read equals the one in memory.
func stamp(t time.Time) metav1.Time {
	return metav1.NewTime(t).Rfc3339Copy()
}
