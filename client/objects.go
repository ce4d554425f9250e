package client

import (
	"context"
	"errors"

	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/podstream/podstream/client/stream"
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

// WatchObjects delivers the ConfigMaps and Secrets that the consumer's pods refer to, and every change to them, until ctx ends, handle
// fails or the Client is closed, and returns that error. It subscribes again and resumes as Watch does, and like Watch returns
// INVALID_ARGUMENT; a podconfigd that doesn't know the call is asked again and again too, as it may be upgraded.
func (c *Client) WatchObjects(ctx context.Context, opts ObjectOptions, handle func(context.Context, ObjectEvent) error) error {
	w := &objectWatcher{
		watcher: watcher{client: c, backoff: newBackoff()}, handle: handle,
		held: stream.NewHeldObjects(opts.ResumeAfter, knownObjects(opts.Known)),
		request: &podconfigv1.WatchObjectsRequest{
			Consumer: c.cfg.Consumer, Format: podconfigv1.PodFormat_POD_FORMAT_PROTOBUF, Filter: opts.Filter,
			HeartbeatInterval: durationpb.New(c.cfg.Heartbeat),
		},
	}
	broke := func(err error) {
		if errors.Is(err, stream.ErrUnknownOp) {
			w.held.Anew()
		}
	}
	return w.persist(ctx, "the objects of podconfigd", w.session, broke, func() {})
}

// objectWatcher is one consumer of objects, across its streams.
type objectWatcher struct {
	watcher // its backoff and its complaints
	handle  func(context.Context, ObjectEvent) error
	request *podconfigv1.WatchObjectsRequest // what is the same for every stream
	held    *stream.HeldObjects
}

// session is one stream: it delivers events until the stream breaks.
func (w *objectWatcher) session(ctx context.Context) error {
	s, err := stream.OpenObjects(ctx, stream.ObjectConfig{
		API: w.client.api, Request: w.held.Begin(w.request), Silence: 3 * w.client.cfg.Heartbeat,
	})
	if err != nil {
		return err
	}
	defer s.Close()
	for {
		revision, err := s.Next()
		if err != nil {
			return err
		}
		if revision.Synced != nil {
			w.backoff, w.complaint = newBackoff(), ""
			w.client.cfg.Logger.Info("in step with the objects of podconfigd", "endpoint", w.client.cfg.Endpoint,
				"revision", revision.Cursor.GetRevision())
		}
		if err := w.deliver(ctx, revision); err != nil {
			return err
		}
	}
}

// deliver hands a revision to the consumer, and remembers it as applied if the consumer took it.
func (w *objectWatcher) deliver(ctx context.Context, r *stream.ObjectRevision) error {
	outcome := w.held.Interpret(r)
	event, err := objectEvent(outcome.Ops)
	if err != nil {
		return err
	}
	event.Synced = r.Synced != nil
	if event.Synced || outcome.SourcesChanged {
		event.Sources = decodeSources(r.Sources())
	}
	if event.Synced || outcome.Moved {
		event.Cursor = outcome.Cursor
	}
	if !event.empty() {
		if err := w.handle(ctx, event); err != nil {
			return handlerError{err}
		}
	}
	w.held.Apply(outcome)
	return nil
}
