package worker

import (
	"context"
	"errors"
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/podstream/podstream/internal/execsvc/decide/status"
)

// ErrNetworkNotReady is wrapped by an error of SyncPod if the pod waits for the node's network. SyncPod is repeated
// after a second.
var ErrNetworkNotReady = errors.New("the network isn't ready")

// Result is the result of a SyncPod. After an error only Rejected, Transient, RetryAfter and WakeAfter count.
type Result struct {
	// Terminal is set if the pod has run to its end and must not be restarted.
	Terminal bool
	// Failure ends the pod as Workers.Kill does, with the pod's own grace period. Nil: it goes on.
	Failure *status.Failure
	// Again is set if SyncPod must be called again at once.
	Again bool
	// Rejected is set if the pod can't run here as it is. SyncPod is called again after growing pauses, because the
	// node may change; a changed manifest resets the pauses.
	Rejected bool
	// Transient is set if an error is transient: it is logged as an error only if it lasts.
	Transient bool
	// RetryAfter is the time until the earliest backoff ends. After an error it counts only if it is less than
	// Config.Retry. Zero: there is no backoff.
	RetryAfter time.Duration
	// Waiting is set if a container waits, for example for a pull: a step that failed before may fail again later. A
	// failure with the same text is then not logged again.
	Waiting bool
	// WakeAfter is the longest time until the next SyncPod, even if nothing failed and nothing waits. Zero: unlimited.
	WakeAfter time.Duration
}

// Syncer does the work on one pod. Each method must be safe to repeat: a worker calls it again until it succeeds. The
// calls for one pod never overlap.
type Syncer interface {
	// SyncPod starts, restarts and changes containers until the pod is as desired. Its context ends when the pod has
	// to end, and after Config.SyncTimeout.
	SyncPod(ctx context.Context, pod *v1.Pod) (Result, error)
	// SyncTerminatingPod stops all containers and sandboxes. Its context ends when the grace period is shortened; it
	// is then called again with the shorter one.
	SyncTerminatingPod(ctx context.Context, pod *v1.Pod, t Termination) error
	// SyncTerminatedPod removes the resources of the pod, except those that its status and logs need.
	SyncTerminatedPod(ctx context.Context, pod *v1.Pod, t Termination) error
	// PurgePod removes the rest of a pod that is not desired any more.
	PurgePod(ctx context.Context, pod *v1.Pod) error
}
