package client

import (
	"context"
	"errors"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/durationpb"
	"k8s.io/apimachinery/pkg/util/wait"

	"github.com/podstream/podstream/client/stream"
	podconfigv1 "github.com/podstream/podstream/proto/podconfig/v1"
)

// WatchOptions select the pods and the start position of Watch. The zero value starts with the current state of all
// pods.
type WatchOptions struct {
	// ResumeAfter is the cursor of the last event that the consumer applied before it restarted. Nil starts with the
	// current state.
	ResumeAfter *podconfigv1.Cursor
	// Known lists all pods that the consumer holds from before its restart. Only UID, Source, Namespace, Name and the
	// digests are used. They belong to ResumeAfter: without them, a consumer whose cursor isn't accepted gets no
	// REMOVE for pods that went meanwhile. A request can list 20,000 pods; with more, the client requests all pods
	// and finds the difference itself.
	Known []Pod
	// Filter selects the pods. A pod that starts to match comes as an ADD, one that stops matching as a REMOVE. The
	// filter may differ from the one before a restart. Nil selects all pods. Don't change it while Watch runs.
	Filter *podconfigv1.PodFilter
	// MaxRevisionBytes bounds the memory for a revision that hasn't arrived as a whole, as stream.Config has it. A stream
	// with a larger revision is ended, and Watch subscribes again. Zero means no limit.
	MaxRevisionBytes int
	// MaxBytes bounds the pods that the consumer holds: the size of their messages, and 256 bytes for each. Those of Known
	// don't count. A stream with a revision by which they would exceed it is ended, and Watch subscribes again. Zero means
	// no limit.
	MaxBytes int
}

// handlerError marks an error of the consumer's own function.
type handlerError struct{ error }

func (e handlerError) Unwrap() error { return e.error }

// Watch delivers events to handle. It returns the error of ctx or of handle, or ErrClosed.
//
// While podconfigd can't be reached, Watch retries without end, after pauses that double from 50 ms to 2 s, each
// lengthened at random by up to half. It also retries if podconfigd refuses the consumer or its request: roles and
// certificates can change, and a podconfigd of another version can accept a request that this one doesn't. Refusals that
// last are logged each minute.
//
// Nothing is delivered of a podconfigd that would take the consumer back in a source's time, as the positions in the
// consumer's cursor show, and nothing of a revision that is invalid or exceeds a limit. Watch ends that stream, logs it, and
// goes on to another podconfigd if there are several.
func (c *Client) Watch(ctx context.Context, opts WatchOptions, handle func(context.Context, Event) error) error {
	w := c.newWatcher(opts, handle)
	return w.persist(ctx, w.session, w.chooseMode, func() {
		if !c.Connected() {
			// The connection's state may change later than the stream breaks.
			w.request.Mode = wantedMode
		}
	})
}

// wantedMode is the mode of the first request to each podconfigd.
const wantedMode = podconfigv1.NotificationMode_NOTIFICATION_MODE_UNSPECIFIED

// watcher is one consumer, across its streams.
type watcher struct {
	client  *Client
	handle  func(context.Context, Event) error
	request *podconfigv1.WatchPodUpdatesRequest // the same for every stream, apart from the mode and the position
	held    *stream.Held
	backoff wait.Backoff
	// maxRevisionBytes is WatchOptions.MaxRevisionBytes, and sizes has its MaxBytes.
	maxRevisionBytes int
	sizes            sizes[podKey]
	pace             *stream.Pace
	// lastError is the last error that was logged, and lastErrorAt the time of that.
	lastError   string
	lastErrorAt time.Time
	// misledAt is when a podconfigd last sent what the consumer must not apply.
	misledAt time.Time
}

// persist runs sessions until ctx ends, the consumer's function fails or the Client is closed, and returns that error. It
// calls broke with the error of each session, and again before the next one.
func (w *watcher) persist(ctx context.Context, session func(context.Context) error, broke func(error), again func()) error {
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
		}
		broke(err)
		pause := w.backoff.Step()
		w.logBreak(err, pause)
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
	}
}

// chooseMode sets the mode of the next stream by the error of the last one. If podconfigd refuses the request as invalid, the
// next one goes to another podconfigd if there are several: one of them can't end what another one serves.
func (w *watcher) chooseMode(err error) {
	if status.Code(err) == codes.InvalidArgument {
		w.client.conn.Fail(err)
	}
	switch {
	case errors.Is(err, stream.ErrUnknownOp), errors.Is(err, errUnknownFormat):
		w.request.Mode = podconfigv1.NotificationMode_NOTIFICATION_MODE_SNAPSHOT
	case status.Code(err) == codes.Unimplemented, !w.client.Connected():
		// Snapshots were requested from a newer podconfigd. This one doesn't implement them, or the next connection
		// may lead to one whose ops are known.
		w.request.Mode = wantedMode
	}
}

// Connected reports whether there is a connection to podconfigd now. Without one, the next stream uses a new one.
func (c *Client) Connected() bool { return c.conn.Connected() }

// Reconnect closes the connection. The next call makes a new one, with the present certificates, and to another
// podconfigd if there are several. A consumer that uses package stream calls it if podconfigd refuses it.
func (c *Client) Reconnect() { c.conn.Reconnect() }

// Behind gives up the podconfigd of the current connection if there are several, and has it tried last for a minute. A
// consumer that uses package stream calls it with an error of Held.Check.
func (c *Client) Behind(err error) { c.conn.Fail(err) }

func (c *Client) isClosed() bool {
	select {
	case <-c.closed:
		return true
	default:
		return false
	}
}

// newBackoff starts short, and jitter only lengthens it: podconfigd is on this node and restarts in less than a
// second.
func newBackoff() wait.Backoff {
	return wait.Backoff{Duration: 50 * time.Millisecond, Factor: 2, Jitter: 0.5, Steps: 7, Cap: 2 * time.Second}
}

func (c *Client) newWatcher(opts WatchOptions, handle func(context.Context, Event) error) *watcher {
	return &watcher{
		client: c, handle: handle, held: stream.NewHeld(opts.ResumeAfter, knownPods(opts.Known)), backoff: newBackoff(),
		maxRevisionBytes: opts.MaxRevisionBytes, sizes: sizes[podKey]{limit: opts.MaxBytes}, pace: stream.NewPace(),
		request: &podconfigv1.WatchPodUpdatesRequest{
			Consumer: c.cfg.Consumer, Format: podconfigv1.PodFormat_POD_FORMAT_PROTOBUF, Filter: opts.Filter,
			HeartbeatInterval: durationpb.New(c.cfg.Heartbeat), Mode: wantedMode,
		},
	}
}

// session opens one stream and delivers its events until the stream breaks.
func (w *watcher) session(ctx context.Context) error {
	s, err := stream.Open(ctx, stream.Config{
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

// take checks a revision and delivers it.
func (w *watcher) take(ctx context.Context, r *stream.Revision) error {
	if err := w.held.Check(r); err != nil {
		return err
	}
	if r.Synced != nil {
		w.client.cfg.Logger.Info("up to date with podconfigd", "endpoint", w.client.cfg.Endpoint, "revision", r.Cursor.GetRevision())
		w.upToDate()
	}
	return w.deliver(ctx, r)
}

// upToDate lets the pauses start short again.
func (w *watcher) upToDate() {
	if time.Since(w.misledAt) > misledTime {
		w.backoff, w.lastError = newBackoff(), ""
	}
}

// deliver passes a revision to the consumer and, if the consumer accepts it, records it as applied. The REMOVEs that
// synced makes certain come right before it.
func (w *watcher) deliver(ctx context.Context, r *stream.Revision) error {
	outcome := w.held.Interpret(r)
	ops, err := decodeChanges(outcome.Ops)
	if err != nil {
		return err
	}
	held := w.sizes.after()
	for _, u := range outcome.Ops {
		for _, p := range u.GetPods() {
			if key := (podKey{p.GetSource(), p.GetRef().GetUid()}); u.GetOp() == Remove {
				held.remove(key)
			} else {
				held.put(key, p)
			}
		}
	}
	if err := held.check("pods"); err != nil {
		return err
	}
	event := Event{Ops: ops, Cursor: outcome.Cursor}
	if r.Heartbeat != nil && (outcome.ReadinessChanged || outcome.SourcesChanged || outcome.HeldChanged) {
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
	held.apply()
	return nil
}

// logBreak logs why there is no stream. It logs a repeated error once, and each minute one that an administrator has to
// resolve: a refusal, a podconfigd that stays behind, and one that sends what must not be applied. A request that is
// invalid counts as refused once it is repeated: the next one may have another content.
func (w *watcher) logBreak(err error, pause time.Duration) {
	log := w.client.cfg.Logger.With("endpoint", w.client.cfg.Endpoint, "error", err, "retry_in", pause)
	code, text, lied := status.Code(err), err.Error(), misled(err)
	invalid := code == codes.InvalidArgument
	urgent := lied || invalid || code == codes.PermissionDenied || code == codes.Unauthenticated
	var behind *stream.BehindError
	if errors.As(err, &behind) {
		// The reason has a version, which changes.
		text = behind.Source
	}
	repeated := text == w.lastError
	if repeated && (!urgent || time.Since(w.lastErrorAt) < time.Minute) {
		return
	}
	w.lastError, w.lastErrorAt = text, time.Now()
	switch {
	case behind != nil:
		log.Error("podconfigd is behind this consumer, and nothing of it is applied; running pods are not affected; "+
			"see that this podconfigd reaches the API server and is of the same version as the others, or stop it", "source", behind.Source)
	case lied:
		log.Error("podconfigd sent what this consumer can't apply, and nothing of it is applied; running pods are not affected; " +
			"see that this podconfigd is one that you trust and is of the same version as the others, or stop it")
	case invalid && repeated:
		log.Error("podconfigd refuses this consumer's request as invalid; running pods are not affected, but no changes arrive until it is accepted; " +
			"see that podconfigd and this consumer are of the same version or of successive ones")
	case urgent && !invalid:
		log.Error("podconfigd refuses this consumer; running pods are not affected, but no changes arrive until it is admitted")
	default:
		log.Warn("no stream from podconfigd; running pods are not affected, retrying until it is back")
	}
}
