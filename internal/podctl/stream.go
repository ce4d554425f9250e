package podctl

import (
	"context"
	"errors"
	"fmt"
	"io"

	podconfigv1 "github.com/podstream/podstream/proto/podconfig/v1"
)

// The ways in which follow ends that aren't gRPC errors.
var (
	// errStreamEnded: podconfigd closed the stream in good order.
	errStreamEnded = errors.New("the stream was ended")
	// errUnknownOperation: podconfigd is newer than podctl. The contract asks to subscribe again for snapshots.
	errUnknownOperation = errors.New("an operation came that this podctl doesn't know")
)

// revision is a whole revision, or a whole catch-up.
type revision struct {
	cursor  *podconfigv1.Cursor
	updates []*podconfigv1.PodUpdate // whole ops, in order
	synced  *podconfigv1.Synced      // nil but at the end of the initial state
}

// follower takes what a stream brings. An error of its own ends the stream and is returned by follow as a followerError.
type follower interface {
	revision(*revision) error
	heartbeat(*podconfigv1.Heartbeat) error
}

// followerError is the error of a follower.
type followerError struct{ err error }

func (e *followerError) Error() string { return e.err.Error() }

func (e *followerError) Unwrap() error { return e.err }

// follow subscribes once and hands on what comes, until the stream ends; the error says why and is never nil. What there is
// of a revision whose cursor hasn't come by then is dropped.
func follow(ctx context.Context, client podconfigv1.PodConfigServiceClient, req *podconfigv1.WatchPodUpdatesRequest, f follower) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel() // ends the stream if it is the follower that gives up
	stream, err := client.WatchPodUpdates(ctx, req)
	if err != nil {
		return err
	}
	var pending revision
	for {
		msg, err := stream.Recv()
		if errors.Is(err, io.EOF) {
			return errStreamEnded
		}
		if err != nil {
			return err
		}
		switch event := msg.GetEvent().(type) {
		case *podconfigv1.WatchPodUpdatesResponse_Update:
			if !knownOperation(event.Update.GetOp()) {
				return fmt.Errorf("%w: %d", errUnknownOperation, event.Update.GetOp())
			}
			pending.add(event.Update)
		case *podconfigv1.WatchPodUpdatesResponse_Synced:
			pending.synced = event.Synced
		case *podconfigv1.WatchPodUpdatesResponse_Heartbeat:
			if err := f.heartbeat(event.Heartbeat); err != nil {
				return &followerError{err}
			}
		}
		if cursor := msg.GetCursor(); cursor != nil {
			pending.cursor = cursor
			if err := f.revision(&pending); err != nil {
				return &followerError{err}
			}
			pending = revision{}
		}
	}
}

// add appends an op, or joins it to the one before if both are fragments of one: an op of many pods comes in several
// messages. An empty op is whole in itself, but for SET, of which a revision has only one.
func (r *revision) add(u *podconfigv1.PodUpdate) {
	if n := len(r.updates); n > 0 {
		last := r.updates[n-1]
		fragments := len(last.GetPods()) > 0 && len(u.GetPods()) > 0 || u.GetOp() == podconfigv1.PodOperation_POD_OPERATION_SET
		if fragments && last.GetOp() == u.GetOp() && last.GetSource() == u.GetSource() && last.GetSourceReady() == u.GetSourceReady() {
			last.Pods = append(last.Pods, u.GetPods()...)
			return
		}
	}
	r.updates = append(r.updates, u)
}

func knownOperation(op podconfigv1.PodOperation) bool {
	_, known := podconfigv1.PodOperation_name[int32(op)]
	return known && op != podconfigv1.PodOperation_POD_OPERATION_UNSPECIFIED
}
