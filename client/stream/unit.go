package stream

import (
	"context"
	"fmt"
	"time"
)

// itemBytes is what a message, or a pod or an object in one, counts beside its encoding: an empty one takes memory
// too.
const itemBytes = 256

// unit bounds a revision of which messages arrive.
type unit struct {
	limit    int
	patience time.Duration
	pace     *Pace

	// size is that of the messages so far, and since when the last one came.
	size  int
	since time.Time
}

// add counts a message with so many pods or objects.
func (u *unit) add(bytes, items int) error {
	u.size, u.since = u.size+bytes+itemBytes*(1+items), time.Now()
	if u.limit > 0 && u.size > u.limit {
		return fmt.Errorf("%w: more than %d bytes", ErrTooLarge, u.limit)
	}
	return nil
}

// heartbeat is called for a heartbeat within the revision.
func (u *unit) heartbeat(ctx context.Context) error {
	if waits := time.Since(u.since); u.patience > 0 && waits > u.patience {
		return fmt.Errorf("%w: nothing but heartbeats for %v", ErrUnfinished, waits.Round(time.Second))
	}
	return u.pace.wait(ctx)
}

// end is called for a whole revision. paced is set if it has a SET or a list of sources.
func (u *unit) end(ctx context.Context, paced bool) error {
	u.size = 0
	if !paced {
		return nil
	}
	return u.pace.wait(ctx)
}
