package upstream

import (
	"context"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/podstream/podstream/client/stream"
	"github.com/podstream/podstream/internal/podctl/web/board"
	podconfigv1 "github.com/podstream/podstream/proto/podconfig/v1"
)

const (
	// historyTime bounds the reading of the history. Tabs wait for it.
	historyTime = 10 * time.Second
	// deepest is how far back the history is looked for. podconfigd keeps 1024 revisions by default.
	deepest = 1 << 16
)

// history returns the revisions that podconfigd keeps up to the cursor, oldest first. podconfigd doesn't say how many it keeps,
// but a stream that resumes after a revision goes on with the next one only if that is kept; otherwise what has changed since
// comes as a catch-up. So the first one is found by halving.
func (f *desiredFollower) history(ctx context.Context, cursor *podconfigv1.Cursor) ([]board.Published, error) {
	if f.upstream.cfg.Recording != "" || cursor.GetRevision() == 0 {
		return nil, nil
	}
	ctx, cancel := context.WithTimeout(ctx, historyTime)
	defer cancel()
	// A revision in kept leads on exactly, and one in lost doesn't.
	kept, lost := cursor.GetRevision(), uint64(0)
	if kept > deepest {
		lost = kept - deepest
	}
	exact, err := f.exactAfter(ctx, cursor, lost)
	if err != nil {
		return nil, err
	}
	if exact {
		kept = lost
	}
	for kept > lost+1 {
		middle := lost + (kept-lost)/2
		if exact, err = f.exactAfter(ctx, cursor, middle); err != nil {
			return nil, err
		}
		if exact {
			kept = middle
		} else {
			lost = middle
		}
	}
	if kept == cursor.GetRevision() {
		return nil, nil
	}
	return f.readAfter(ctx, cursor, kept)
}

// exactAfter reports whether the first revision after the given one is kept.
func (f *desiredFollower) exactAfter(ctx context.Context, cursor *podconfigv1.Cursor, revision uint64) (bool, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	s, err := f.resume(ctx, cursor, revision, podconfigv1.PodFormat_POD_FORMAT_REFERENCE)
	if err != nil {
		return false, err
	}
	defer s.Close()
	r, err := s.Next()
	if err != nil {
		return false, err
	}
	return isExact(r, revision), nil
}

// readAfter returns the revisions after the given one up to the cursor's.
func (f *desiredFollower) readAfter(ctx context.Context, cursor *podconfigv1.Cursor, revision uint64) ([]board.Published, error) {
	s, err := f.resume(ctx, cursor, revision, podconfigv1.PodFormat_POD_FORMAT_PROTOBUF)
	if err != nil {
		return nil, err
	}
	defer s.Close()
	var out []board.Published
	size := intake{most: f.upstream.cfg.MaxBytes}
	for {
		r, err := s.Next()
		if err != nil {
			return nil, err
		}
		if len(out) == 0 && len(r.Updates) > 0 && !isExact(r, revision) {
			return nil, nil // It has just been dropped: the timeline begins now.
		}
		if len(r.Updates) > 0 && r.Cursor.GetRevision() <= cursor.GetRevision() {
			for _, u := range r.Updates {
				if err := size.add(u); err != nil {
					return nil, err
				}
			}
			out = append(out, board.Published{Revision: r, Ops: r.Updates, Cursor: r.Cursor, Received: f.received()})
		}
		if r.Synced != nil || r.Cursor.GetRevision() >= cursor.GetRevision() {
			return out, nil
		}
	}
}

// resume opens a stream after a revision.
func (f *desiredFollower) resume(ctx context.Context, cursor *podconfigv1.Cursor, revision uint64, format podconfigv1.PodFormat) (*stream.Stream, error) {
	request := proto.CloneOf(f.request)
	request.ResumeAfter = proto.CloneOf(cursor)
	request.ResumeAfter.Revision = revision
	request.Format = format
	return stream.Open(ctx, stream.Config{API: f.api, Request: request, Silence: f.silence, MaxRevisionBytes: f.upstream.cfg.MaxBytes})
}

// isExact reports whether the stream goes on with a revision as it was published, and not with a catch-up.
func isExact(r *stream.Revision, after uint64) bool {
	if len(r.Updates) == 0 || r.Cursor.GetRevision() <= after {
		return false
	}
	for _, u := range r.Updates {
		if u.GetObservedTime() == nil && len(u.GetPods()) > 0 || u.GetOp() == podconfigv1.PodOperation_POD_OPERATION_SET {
			return false
		}
	}
	return true
}
