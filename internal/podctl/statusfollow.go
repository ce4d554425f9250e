package podctl

import (
	"context"
	"errors"
	"sync"
	"time"

	podconfigv1 "github.com/podstream/podstream/proto/podconfig/v1"
	podexecv1 "github.com/podstream/podstream/proto/podexec/v1"
)

// errFollowed ends followStatus: its look function has seen enough.
var errFollowed = errors.New("the condition is met")

// followStatus calls look with all pods that match the filter, by UID, once they are complete and after each change, until it
// returns an error: errFollowed is success. The error is the cause of the end of ctx if it ended before. reached is set if
// podexecd has answered before: then a first connection that fails is reported and tried again, as later ones are.
func (t *tool) followStatus(
	ctx context.Context, filter *podconfigv1.PodFilter, reached bool, look func(map[string]*podexecv1.ObservedPod) error,
) error {
	s := t.newStatusStream(filter)
	s.connected = reached
	s.changed = func(_, _ podChanges) error { return look(s.pods) }
	err := s.run(ctx)
	switch {
	case errors.Is(err, errFollowed):
		return nil
	case err == nil:
		return context.Cause(ctx)
	}
	return err
}

// errLimit is the cause of the end of a context by withLimit.
var errLimit = errors.New("the time limit is over")

// withLimit returns ctx with a time limit by the tool's clock. Zero: it has none. release ends the context's goroutine.
func (t *tool) withLimit(ctx context.Context, limit time.Duration) (limited context.Context, release func()) {
	limited, cancel := context.WithCancelCause(ctx)
	if limit <= 0 {
		return limited, func() { cancel(nil) }
	}
	timer := t.Clock.NewTimer(limit)
	var waiting sync.WaitGroup
	waiting.Go(func() {
		defer timer.Stop()
		select {
		case <-timer.C():
			cancel(errLimit)
		case <-limited.Done():
		}
	})
	return limited, func() { cancel(nil); waiting.Wait() }
}
