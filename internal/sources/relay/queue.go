package relay

import (
	"context"
	"sync"

	"google.golang.org/protobuf/proto"

	"github.com/podstream/podstream/client/stream"
)

// maxQueued is how many bytes of revisions may wait before reading pauses.
const maxQueued = 4 << 20

// queue passes revisions from the goroutine that reads the stream to the one that applies them, which takes all that
// wait at once. Of consecutive heartbeats only the last one is kept, as it has all that the others had.
type queue struct {
	// more has a token if something waits, and space has one when all was taken.
	more, space chan struct{}

	mu    sync.Mutex
	waits []*stream.Revision
	bytes int
	// woken is set if take has to return even if nothing waits.
	woken bool
	// end is the error that ended the stream, or nil.
	end error
}

func newQueue() *queue {
	return &queue{more: make(chan struct{}, 1), space: make(chan struct{}, 1)}
}

// fill reads the stream to its end.
func (q *queue) fill(ctx context.Context, s *stream.Stream) {
	for {
		r, err := s.Next()
		full := q.put(r, err)
		for full && err == nil {
			select {
			case <-q.space:
			case <-ctx.Done():
				return
			}
			full = q.isFull()
		}
		if err != nil {
			return
		}
	}
}

func (q *queue) put(r *stream.Revision, err error) (full bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if err != nil {
		q.end = err
	} else {
		if last := len(q.waits) - 1; last >= 0 && isBeat(r) && isBeat(q.waits[last]) {
			q.bytes -= sizeOf(q.waits[last])
			q.waits = q.waits[:last]
		}
		q.waits = append(q.waits, r)
		q.bytes += sizeOf(r)
	}
	token(q.more)
	return q.bytes > maxQueued
}

// isBeat reports whether a revision is only a heartbeat.
func isBeat(r *stream.Revision) bool {
	return r.Heartbeat != nil && r.Synced == nil && len(r.Updates) == 0
}

// sizeOf returns the encoded size of a revision.
func sizeOf(r *stream.Revision) int {
	n := proto.Size(r.Synced) + proto.Size(r.Heartbeat) + proto.Size(r.Cursor)
	for _, u := range r.Updates {
		n += proto.Size(u)
	}
	return n
}

func (q *queue) isFull() bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.bytes > maxQueued
}

// wake makes take return, perhaps without revisions.
func (q *queue) wake() {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.woken = true
	token(q.more)
}

// take waits for revisions and returns all that wait; none if it was woken. The error is returned alone, after all
// revisions.
func (q *queue) take(ctx context.Context) ([]*stream.Revision, error) {
	for {
		q.mu.Lock()
		revisions, end, woken := q.waits, q.end, q.woken
		q.waits, q.bytes, q.woken = nil, 0, false
		q.mu.Unlock()
		token(q.space)
		switch {
		case len(revisions) > 0:
			return revisions, nil
		case end != nil:
			return nil, end
		case woken:
			return nil, nil
		}
		select {
		case <-q.more:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}

// token puts a token into c unless there is one.
func token(c chan<- struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}
