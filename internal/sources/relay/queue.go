package relay

import (
	"context"
	"sync"

	"google.golang.org/protobuf/proto"

	"github.com/podstream/podstream/client/stream"
)

// maxQueued is how many bytes of revisions may wait before no more are read.
const maxQueued = 4 << 20

// queue takes revisions from who reads the stream to who applies them, who gets all that wait at once. Of heartbeats that nothing
// stands between only the last one waits: it says all that those before it said.
type queue struct {
	// more has a token if something waits, and room one when all was taken.
	more, room chan struct{}

	mu    sync.Mutex
	waits []*stream.Revision
	bytes int
	// end is why there will be no more. Nil: there may be.
	end error
}

func newQueue() *queue {
	return &queue{more: make(chan struct{}, 1), room: make(chan struct{}, 1)}
}

// fill reads the stream to its end.
func (q *queue) fill(ctx context.Context, s *stream.Stream) {
	for {
		r, err := s.Next()
		full := q.put(r, err)
		for full && err == nil {
			select {
			case <-q.room:
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

// isBeat tells whether a revision is nothing but a heartbeat.
func isBeat(r *stream.Revision) bool {
	return r.Heartbeat != nil && r.Synced == nil && len(r.Updates) == 0
}

// sizeOf is how many bytes a revision came in.
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

// take waits for revisions and returns all that wait. The error comes alone, after all of them.
func (q *queue) take(ctx context.Context) ([]*stream.Revision, error) {
	for {
		q.mu.Lock()
		revisions, end := q.waits, q.end
		q.waits, q.bytes = nil, 0
		q.mu.Unlock()
		token(q.room)
		switch {
		case len(revisions) > 0:
			return revisions, nil
		case end != nil:
			return nil, end
		}
		select {
		case <-q.more:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}

// token puts a token there unless there is one.
func token(c chan<- struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}
