package worker

import (
	"context"
	"errors"
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/podstream/podstream/internal/execsvc/status"
)

// ErrNetworkNotReady is what an error of SyncPod wraps if the pod waits for the node's network: it is tried again after a second.
var ErrNetworkNotReady = errors.New("the network isn't ready")

// Result is what came of a SyncPod. After an error only Refused, Passing, RetryAfter and WakeAfter count.
type Result struct {
	// Terminal is set if the pod has run to its end and must not be restarted.
	Terminal bool
	// Failure ends the pod as Workers.Kill does, with the pod's own grace period. Nil: it goes on.
	Failure *status.Failure
	// Again is set if there is more to do at once.
	Again bool
	// Refused is set if the pod can't run here as it is. It is offered again after growing pauses, as what it lacks may come; a
	// changed manifest begins anew.
	Refused bool
	// Passing is set if an error is over in a moment, mostly: it is logged as an error only once it has lasted.
	Passing bool
	// RetryAfter is when the earliest backoff ends; after an error it counts only if it is less than Config.Retry. Zero: nothing
	// waits for one.
	RetryAfter time.Duration
	// WakeAfter is when to look at the pod again at the latest, though nothing failed and nothing waits. It counts if it comes
	// before whatever else has the pod looked at. Zero: never.
	WakeAfter time.Duration
}

// Syncer does the work on one pod. Each method must be safe to repeat: a worker calls it again until it succeeds. The calls
// for one pod never overlap.
type Syncer interface {
	// SyncPod brings the pod to what is desired. Its context ends when the pod is to be terminated, and after Config.SyncTimeout.
	SyncPod(ctx context.Context, pod *v1.Pod) (Result, error)
	// SyncTerminatingPod stops all that runs. Its context ends when the grace period has been shortened: it is then called again,
	// with that.
	SyncTerminatingPod(ctx context.Context, pod *v1.Pod, t Termination) error
	// SyncTerminatedPod cleans up what the pod used, and leaves what its status and logs need.
	SyncTerminatedPod(ctx context.Context, pod *v1.Pod, t Termination) error
	// PurgePod removes what is left of a pod that isn't desired any more.
	PurgePod(ctx context.Context, pod *v1.Pod) error
}
