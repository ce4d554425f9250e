package client

import (
	"context"
	"errors"
	"fmt"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/connectivity"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/durationpb"
	"k8s.io/apimachinery/pkg/util/wait"

	"github.com/podstream/podstream/client/stream"
	podconfigv1 "github.com/podstream/podstream/proto/podconfig/v1"
)

// WatchOptions say where a consumer starts, and what it wants to see.
type WatchOptions struct {
	// ResumeAfter is the cursor of the last event that the consumer applied in an earlier life. Nil: it starts anew.
	ResumeAfter *podconfigv1.Cursor
	// Known are all pods that the consumer holds from an earlier life: of each, UID, Source, Namespace, Name and the digests are
	// used. They belong to ResumeAfter: without them, a consumer whose cursor can't be honoured isn't told what to remove. More
	// than 20,000 can't be sent: podconfigd is asked for all pods then, and the difference is found here.
	Known []Pod
	// Filter selects the pods. A pod that begins to match comes as an ADD, one that no longer does as a REMOVE. It may be another
	// one than in an earlier life. Nil: all pods. It must not be changed while Watch runs.
	Filter *podconfigv1.PodFilter
}

// handlerError marks an error that came from the consumer's own function.
type handlerError struct{ error }

func (e handlerError) Unwrap() error { return e.error }

// Watch delivers events to handle until ctx ends, handle fails or the Client is closed, and returns that error. It doesn't
// return when podconfigd can't be reached or goes away: it tries again, for as long as it takes, after pauses that double from
// 50 ms to 2 s, each lengthened at random by up to half. Nor does it if podconfigd refuses the consumer, as roles and certificates
// change while it runs. It does return INVALID_ARGUMENT, which no second try would mend.
func (c *Client) Watch(ctx context.Context, opts WatchOptions, handle func(context.Context, Event) error) error {
	w := c.newWatcher(opts, handle)
	return w.persist(ctx, "podconfigd", w.session, w.chooseMode, func() {
		if !c.connected() {
			// That the connection is gone may show later than that the stream is.
			w.request.Mode = wantedMode
		}
	})
}

// wantedMode is the mode in which each podconfigd is asked first.
const wantedMode = podconfigv1.NotificationMode_NOTIFICATION_MODE_UNSPECIFIED

// watcher is one consumer, across its streams.
type watcher struct {
	client  *Client
	handle  func(context.Context, Event) error
	request *podconfigv1.WatchPodUpdatesRequest // what is the same for every stream, but for the mode
	held    *stream.Held
	backoff wait.Backoff
	// complaint is the last error that was logged, and when.
	complaint   string
	complaintAt time.Time
}

// persist runs one session after the other until ctx ends, the consumer's own function fails, the Client is closed, or podconfigd
// can't understand what is asked of it, and returns that error. broke is told why each session ended, and again is called before the next.
func (w *watcher) persist(ctx context.Context, what string, session func(context.Context) error, broke func(error), again func()) error {
	c := w.client
	for {
		err := session(ctx)
		var own handlerError
		switch {
		case errors.As(err, &own):
			return own.error
		case ctx.Err() != nil:
			return ctx.Err()
		case c.isClosed():
			return ErrClosed
		case status.Code(err) == codes.InvalidArgument:
			return fmt.Errorf("subscribe to %s at %s: %w", what, c.cfg.Endpoint, err)
		}
		broke(err)
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
		again()
		c.conn.ResetConnectBackoff()
	}
}

// chooseMode decides, by how the last stream broke, in which mode the next one is asked for.
func (w *watcher) chooseMode(err error) {
	switch {
	case errors.Is(err, stream.ErrUnknownOp), errors.Is(err, errUnknownFormat):
		w.request.Mode = podconfigv1.NotificationMode_NOTIFICATION_MODE_SNAPSHOT
	case status.Code(err) == codes.Unimplemented, !w.client.connected():
		// Snapshots were asked of a newer podconfigd. This one is older and has none; or the next connection may lead to one that
		// is understood.
		w.request.Mode = wantedMode
	}
}

// connected tells whether there is a connection. Without one the next stream is on a new one.
func (c *Client) connected() bool { return c.conn.GetState() == connectivity.Ready }

func (c *Client) isClosed() bool {
	select {
	case <-c.closed:
		return true
	default:
		return false
	}
}

// newBackoff is short, and what is random of it only adds: podconfigd is on this node, and a restart of it takes less than a second.
func newBackoff() wait.Backoff {
	return wait.Backoff{Duration: 50 * time.Millisecond, Factor: 2, Jitter: 0.5, Steps: 7, Cap: 2 * time.Second}
}

func (c *Client) newWatcher(opts WatchOptions, handle func(context.Context, Event) error) *watcher {
	return &watcher{
		client: c, handle: handle, held: stream.NewHeld(opts.ResumeAfter, knownPods(opts.Known)), backoff: newBackoff(),
		request: &podconfigv1.WatchPodUpdatesRequest{
			Consumer: c.cfg.Consumer, Format: podconfigv1.PodFormat_POD_FORMAT_PROTOBUF, Filter: opts.Filter,
			HeartbeatInterval: durationpb.New(c.cfg.Heartbeat), Mode: wantedMode,
		},
	}
}

// session is one stream: it delivers events until the stream breaks.
func (w *watcher) session(ctx context.Context) error {
	s, err := stream.Open(ctx, stream.Config{
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
			w.client.cfg.Logger.Info("in step with podconfigd", "endpoint", w.client.cfg.Endpoint, "revision", revision.Cursor.GetRevision())
		}
		if err := w.deliver(ctx, revision); err != nil {
			return err
		}
	}
}

// deliver hands a revision to the consumer, and remembers it as applied if the consumer took it. What is certain only with synced
// comes right before it.
func (w *watcher) deliver(ctx context.Context, r *stream.Revision) error {
	outcome := w.held.Interpret(r)
	ops, err := decodeChanges(outcome.Ops)
	if err != nil {
		return err
	}
	event := Event{Ops: ops, Cursor: outcome.Cursor}
	if r.Heartbeat != nil && (outcome.ReadinessChanged || outcome.SourcesChanged) {
		event.Sources = decodeSources(r.Sources())
	}
	if len(ops) > 0 || event.Sources != nil || outcome.Moved && r.Synced == nil {
		if err := w.handle(ctx, event); err != nil {
			return handlerError{err}
		}
	}
	if r.Synced != nil {
		synced := Event{Synced: true, Sources: decodeSources(r.Sources()), Cursor: outcome.Cursor}
		if err := w.handle(ctx, synced); err != nil {
			return handlerError{err}
		}
	}
	w.held.Apply(outcome)
	return nil
}

// complain logs why there is no stream: the same error again and again once, but a refusal, which a person has to mend, each minute.
func (w *watcher) complain(err error, pause time.Duration) {
	log := w.client.cfg.Logger.With("endpoint", w.client.cfg.Endpoint, "error", err, "retry_in", pause)
	code := status.Code(err)
	refused := code == codes.PermissionDenied || code == codes.Unauthenticated
	if err.Error() == w.complaint && (!refused || time.Since(w.complaintAt) < time.Minute) {
		return
	}
	w.complaint, w.complaintAt = err.Error(), time.Now()
	if refused {
		log.Error("podconfigd refuses this consumer; what runs goes on running, but nothing new is learnt until it is admitted")
		return
	}
	log.Warn("no stream from podconfigd; what runs goes on running, subscribing again until it is back")
}
