package worker

import (
	"cmp"
	"math"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"

	"github.com/podstream/podstream/internal/execsvc/status"
)

// Termination is how a pod ends.
type Termination struct {
	// Grace is the grace period in seconds, at least 1. Each container has it from when it is told to end, and not before Since.
	Grace int64
	// Failure is why the node ends the pod. Nil: it doesn't; the pod has run to its end, or isn't wanted any more.
	Failure *status.Failure
	// Deadline is when the grace period ends for what was told to end at once. It only ever becomes earlier, and Grace shorter with it.
	Deadline time.Time
}

// Since is when the grace period was set.
func (t Termination) Since() time.Time { return t.Deadline.Add(-time.Duration(t.Grace) * time.Second) }

// Kill says how to end a pod that stays desired: an evicted one, say.
type Kill struct {
	// Grace is the grace period in seconds, at least 1. Nil: the pod's own.
	Grace *int64
	// Failure is why, for the pod's status.
	Failure *status.Failure
}

// longestGrace is some 68 years, in seconds: longer ones can't be told as a time.
const longestGrace = math.MaxInt32

// NewTermination is one that begins now, with a grace period in seconds.
func NewTermination(now time.Time, grace int64, failure *status.Failure) Termination {
	grace = min(max(grace, 1), longestGrace)
	return Termination{Grace: grace, Failure: failure, Deadline: now.Add(time.Duration(grace) * time.Second)}
}

// graceOf is the grace period of a deletion, or else the pod's own, in seconds.
func graceOf(pod *v1.Pod) int64 {
	return *cmp.Or(pod.DeletionGracePeriodSeconds, pod.Spec.TerminationGracePeriodSeconds, ptr.To[int64](v1.DefaultTerminationGracePeriodSeconds))
}
