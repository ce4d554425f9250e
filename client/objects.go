package client

import (
	"context"
	"errors"
	"fmt"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/durationpb"

	podconfigv1 "github.com/podstream/podstream/proto/podconfig/v1"
)

// ObjectOptions say where a consumer of objects starts, and whose objects it wants.
type ObjectOptions struct {
	// ResumeAfter is the cursor of the last event that the consumer applied in an earlier life. Nil: it starts anew.
	ResumeAfter *podconfigv1.Cursor
	// Known are all objects that the consumer holds from an earlier life: of each, the reference and the digest are used. One without a
	// digest is known to be missing. More than 20,000 can't be sent: podconfigd is asked for all objects then, and the
	// difference is found here.
	Known []Object
	// Filter selects the pods whose objects are wanted. Nil: all pods. It must not be changed while WatchObjects runs.
	Filter *podconfigv1.PodFilter
}

// maxKnownObjects is how many podconfigd takes.
const maxKnownObjects = 20_000

// WatchObjects delivers the ConfigMaps and Secrets that the consumer's pods refer to, and every change to them, until ctx ends, handle
// fails or the Client is closed, and returns that error. It subscribes again and resumes as Watch does, and like Watch returns
// INVALID_ARGUMENT; a podconfigd that doesn't know the call is asked again and again too, as it may be upgraded.
func (c *Client) WatchObjects(ctx context.Context, opts ObjectOptions, handle func(context.Context, ObjectEvent) error) error {
	w := &objectWatcher{
		watcher: watcher{client: c, backoff: newBackoff()}, handle: handle, held: newHeldObjects(opts.ResumeAfter, opts.Known),
		request: &podconfigv1.WatchObjectsRequest{
			Consumer: c.cfg.Consumer, Format: podconfigv1.PodFormat_POD_FORMAT_PROTOBUF, Filter: opts.Filter,
			HeartbeatInterval: durationpb.New(c.cfg.Heartbeat),
		},
	}
	for {
		err := w.session(ctx)
		var own handlerError
		switch {
		case errors.As(err, &own):
			return own.error
		case ctx.Err() != nil:
			return ctx.Err()
		case c.isClosed():
			return ErrClosed
		case status.Code(err) == codes.InvalidArgument:
			return fmt.Errorf("subscribe to the objects of podconfigd at %s: %w", c.cfg.Endpoint, err)
		case errors.Is(err, errUnknownObjectOp):
			// A SET is the least that every version understands.
			w.anew = true
		}
		pause := w.backoff.Step()
		w.complain(err, pause)
		if c.cfg.OnBreak != nil {
			c.cfg.OnBreak(err)
		}
		select {
		case <-time.After(pause):
		case <-ctx.Done():
			return ctx.Err()
		case <-c.closed:
			return ErrClosed
		}
		c.conn.ResetConnectBackoff()
	}
}

// objectWatcher is one consumer of objects, across its streams.
type objectWatcher struct {
	watcher // its backoff and its complaints
	handle  func(context.Context, ObjectEvent) error
	request *podconfigv1.WatchObjectsRequest // what is the same for every stream
	held    *heldObjects
	// anew makes the next stream begin with everything, whatever is held.
	anew bool
}

// session is one stream: it delivers events until the stream breaks.
func (w *objectWatcher) session(ctx context.Context) error {
	request := w.held.begin(w.request, w.anew)
	w.anew = false
	s, err := openObjects(ctx, w.client.api, request, 3*w.client.cfg.Heartbeat)
	if err != nil {
		return err
	}
	defer s.close()
	for {
		u, err := s.next()
		if err != nil {
			return err
		}
		if u.synced {
			w.backoff, w.complaint = newBackoff(), ""
			w.client.cfg.Logger.Info("in step with the objects of podconfigd", "endpoint", w.client.cfg.Endpoint,
				"revision", u.cursor.GetRevision())
		}
		if err := w.deliver(ctx, u); err != nil {
			return err
		}
	}
}

// deliver hands a unit to the consumer, and remembers it as applied if the consumer took it.
func (w *objectWatcher) deliver(ctx context.Context, u *objectUnit) error {
	event, after, err := w.held.interpret(u)
	if err != nil {
		return err
	}
	if !event.empty() {
		if err := w.handle(ctx, event); err != nil {
			return handlerError{err}
		}
	}
	w.held = after
	return nil
}
