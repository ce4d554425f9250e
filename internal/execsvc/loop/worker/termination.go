package worker

import (
	"math"
	"time"

	"github.com/podstream/podstream/internal/execsvc/decide/status"
)

// Termination describes how a pod ends.
type Termination struct {
	// Grace is the grace period in seconds, at least 1. For each container it begins with its SIGTERM, and not before
	// Since.
	Grace int64
	// Failure is why the node ends the pod. Nil: the pod has run to its end, or is not desired any more.
	Failure *status.Failure
	// Deadline is the end of the grace period of a container that got its SIGTERM at once. It only becomes earlier,
	// and Grace shorter with it.
	Deadline time.Time
}

// Since returns when the grace period was set.
func (t Termination) Since() time.Time { return t.Deadline.Add(-time.Duration(t.Grace) * time.Second) }

// Kill describes how to end a pod that stays desired, for example an evicted one.
type Kill struct {
	// Grace is the grace period in seconds, at least 1. Nil: the pod's own.
	Grace *int64
	// Failure is the reason for the pod's status.
	Failure *status.Failure
}

// longestGrace is about 68 years, in seconds: with longer ones, time.Duration overflows.
const longestGrace = math.MaxInt32

// NewTermination returns a termination that begins now, with a grace period in seconds.
func NewTermination(now time.Time, grace int64, failure *status.Failure) Termination {
	grace = min(max(grace, 1), longestGrace)
	return Termination{Grace: grace, Failure: failure, Deadline: now.Add(time.Duration(grace) * time.Second)}
}

// restored returns a termination that another process stored. The deadline becomes one of this process's clock. It is
// not further away than the grace period: the wall clock may have been set back.
func (t Termination) restored(now time.Time) Termination {
	t.Deadline = now.Add(min(t.Deadline.Sub(now), time.Duration(t.Grace)*time.Second))
	return t
}
