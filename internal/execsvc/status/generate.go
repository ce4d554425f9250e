package status

import (
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/podstream/podstream/internal/execsvc/criconfig"
	"github.com/podstream/podstream/internal/execsvc/observed"
)

// Input is what is known of a pod.
type Input struct {
	Pod *v1.Pod
	// Runtime is what the runtime has of it, from Runtime.Status. Nil if that is nothing, or isn't known.
	Runtime *observed.Pod
	// RuntimeName comes before the "://" of container IDs: "containerd".
	RuntimeName string
	// Probes are what the probes of its containers say.
	Probes observed.Probes
	// Waiting tells, by container name, why a container can't be started or restarted now. It counts only for those that should
	// be. Nil: nobody has tried since Previous, and what that says stands.
	Waiting map[string]observed.Waiting
	// Resize is how far a change of the pod's resources is. Nil: nobody has looked since Previous, and what that says stands.
	Resize *Resize
	// Terminal says that the pod has been stopped and nothing of it is started again, whatever its restart policy.
	Terminal bool
	// Failure is why the pod was rejected or stopped by the node; nil if it wasn't.
	Failure *Failure
	// Previous is the status before this one. Nil: that of Pod counts, if it has one.
	Previous *v1.PodStatus
	// HostIPs are the node's addresses, the primary one first.
	HostIPs []string
	Now     time.Time
}

// Failure is why a pod has failed as a whole.
type Failure struct {
	Reason, Message string
	// Disrupted is set if the pod ends for the sake of the node (an eviction, say) and not for its own: then the condition
	// DisruptionTarget tells its owner so.
	Disrupted bool
}

// Resize is how far a change of a pod's resources is.
type Resize struct {
	// Pending is why the pod isn't allocated what it asks for: v1.PodReasonDeferred or v1.PodReasonInfeasible, with a message. Empty: it is.
	Pending, Message string
	// InProgress is set while running containers don't have what the pod was allocated. Begun is set if it has just been allocated: what is
	// said of a change before doesn't count any more. Otherwise an error that was met stands until the change is done or meets another one.
	InProgress, Begun bool
	Error             string
}

// Generate is the pod's status. Two calls with the same input, but for Now, and the first one's result as Previous give equal
// statuses.
func Generate(in Input) v1.PodStatus {
	if in.Previous == nil {
		in.Previous = &in.Pod.Status
	}
	if in.Runtime == nil {
		in.Runtime = &observed.Pod{UID: in.Pod.UID}
	}
	status := v1.PodStatus{
		ObservedGeneration: in.Pod.Generation,
		QOSClass:           criconfig.QOSClass(in.Pod),
		StartTime:          startTime(&in),
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

// neverStarted tells whether the pod was rejected before anything of it was made. Then there is nothing to say of containers.
func neverStarted(in *Input) bool {
	return in.Failure != nil && len(in.Runtime.Containers) == 0 &&
		len(in.Previous.ContainerStatuses) == 0 && len(in.Previous.InitContainerStatuses) == 0
}

// startTime is when the pod was first seen by a node agent.
func startTime(in *Input) *metav1.Time {
	for _, status := range []*v1.PodStatus{in.Previous, &in.Pod.Status} {
		if status.StartTime != nil {
			return status.StartTime.DeepCopy()
		}
	}
	// An agent that was restarted still finds when the pod's first sandbox was made.
	start := in.Now
	for _, s := range in.Runtime.Sandboxes {
		if s.Created.Before(start) {
			start = s.Created
		}
	}
	at := stamp(start)
	return &at
}

// stamp is t as the API has it, in whole seconds, so that a status that was stored and read equals the one in memory.
func stamp(t time.Time) metav1.Time {
	return metav1.NewTime(t).Rfc3339Copy()
}
