package client

import (
	"context"
	"errors"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/podstream/podstream/client/stream"
	podconfigv1 "github.com/podstream/podstream/proto/podconfig/v1"
)

// ObjectOptions select the objects and the start position of WatchObjects. The zero value starts with the current
// state of all pods' objects.
type ObjectOptions struct {
	// ResumeAfter is the cursor of the last event that the consumer applied before it restarted. Nil starts with the
	// current state.
	ResumeAfter *podconfigv1.Cursor
	// Known lists all objects that the consumer holds from before its restart. Only the reference and the digest of
	// each are used. An object without a digest is known to be missing. A request can list 20,000 objects; with more,
	// the client requests all objects and finds the difference itself.
	Known []Object
	// Filter selects the pods whose objects are delivered. Nil selects all pods. Don't change it while WatchObjects
	// runs.
	Filter *podconfigv1.PodFilter
	// Kinds are the kinds that are delivered beside ConfigMaps and Secrets: ClaimKind, VolumeKind and DriverKind.
	Kinds []ObjectKind
	// MaxRevisionBytes and MaxBytes are as in WatchOptions, for objects: of one revision, and of all that the consumer
	// holds.
	MaxRevisionBytes, MaxBytes int
}

// WatchObjects delivers the objects that the consumer's pods refer to, and every change to them, to
// handle. It returns the error of ctx or of handle, or ErrClosed. It retries and resumes as Watch does. It retries also a
// podconfigd without this call, which may be upgraded.
//
// An older podconfigd refuses a list of held objects that has a kind it doesn't know. WatchObjects then requests all
// objects without a list. The objects of that kind come as Removed, as for this podconfigd no pod refers to them.
func (c *Client) WatchObjects(ctx context.Context, opts ObjectOptions, handle func(context.Context, ObjectEvent) error) error {
	w := &objectWatcher{
		watcher: watcher{client: c, backoff: newBackoff(), maxRevisionBytes: opts.MaxRevisionBytes, pace: stream.NewPace()}, handle: handle,
		sizes: sizes[ObjectRef]{limit: opts.MaxBytes},
		held:  stream.NewHeldObjects(opts.ResumeAfter, knownObjects(opts.Known)),
		request: &podconfigv1.WatchObjectsRequest{
			Consumer: c.cfg.Consumer, Format: podconfigv1.PodFormat_POD_FORMAT_PROTOBUF, Filter: opts.Filter,
			HeartbeatInterval: durationpb.New(c.cfg.Heartbeat), Kinds: opts.Kinds,
		},
	}
	broke := func(err error) {
		// An older podconfigd refuses a request that lists an object of a kind that it doesn't know. Every podconfigd can send
		// a SET, and accepts the request for one.
		unfit := errors.Is(err, stream.ErrUnknownOp) || status.Code(err) == codes.InvalidArgument
		if unfit && w.wantsSet {
			c.conn.Fail(err)
		}
		if w.wantsSet = unfit; unfit || errors.Is(err, errTooMuch) {
			// A SET comes in one revision with the end of the initial state, which removes what it lacks. So what one
			// podconfigd has sent too much of is gone before the next one's objects count.
			w.held.Anew()
		}
	}
	return w.persist(ctx, w.session, broke, func() {})
}

// objectWatcher is one consumer of objects, across its streams.
type objectWatcher struct {
	watcher // for its backoff, its log and its pace
	sizes   sizes[ObjectRef]
	handle  func(context.Context, ObjectEvent) error
	request *podconfigv1.WatchObjectsRequest // the same for every stream, apart from the position
	held    *stream.HeldObjects
	// wantsSet is set if a SET was requested after an unknown op or a refused request.
	wantsSet bool
}

// session opens one stream and delivers its events until the stream breaks.
func (w *objectWatcher) session(ctx context.Context) error {
	s, err := stream.OpenObjects(ctx, stream.ObjectConfig{
		API: w.client.api, Request: w.held.Begin(w.request), Silence: 3 * w.client.cfg.Heartbeat,
		MaxRevisionBytes: w.maxRevisionBytes, Patience: patience, Pace: w.pace,
	})
	if err != nil {
		return err
	}
	defer s.Close()
	for begun := false; ; begun = true {
		revision, err := s.Next()
		if err == nil {
			err = w.take(ctx, revision)
		}
		if err != nil {
			w.broke(err, begun)
			return err
		}
	}
}

// take delivers a revision.
func (w *objectWatcher) take(ctx context.Context, r *stream.ObjectRevision) error {
	if r.Synced != nil {
		w.client.cfg.Logger.Info("objects are up to date with podconfigd", "endpoint", w.client.cfg.Endpoint, "revision", r.Cursor.GetRevision())
		w.upToDate()
	}
	return w.deliver(ctx, r)
}

// deliver passes a revision to the consumer and, if the consumer accepts it, records it as applied.
func (w *objectWatcher) deliver(ctx context.Context, r *stream.ObjectRevision) error {
	outcome := w.held.Interpret(r)
	event, err := objectEvent(outcome.Ops)
	if err != nil {
		return err
	}
	held := w.sizes.after()
	for _, u := range outcome.Ops {
		for _, o := range u.GetObjects() {
			if ref := objectRef(o.GetRef()); u.GetOp() == podconfigv1.ObjectOperation_OBJECT_OPERATION_REMOVE {
				held.remove(ref)
			} else {
				held.put(ref, o)
			}
		}
	}
	if err := held.check("objects"); err != nil {
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
	held.apply()
	return nil
}
