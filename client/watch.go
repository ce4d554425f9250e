package client

import (
	"context"
	"errors"
	"fmt"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/durationpb"
	"k8s.io/apimachinery/pkg/util/wait"

	podconfigv1 "github.com/podstream/podstream/proto/podconfig/v1"
)

// WatchOptions say where a consumer starts.
type WatchOptions struct {
	// ResumeAfter is the cursor of the last event that the consumer applied in an earlier life. Nil: it starts anew.
	ResumeAfter *podconfigv1.Cursor
	// Known are all pods that the consumer holds from an earlier life: of each, UID, Source and the digests are used. They
	// belong to ResumeAfter: without them, a consumer whose cursor can't be honoured isn't told what to remove.
	Known []Pod
}

// handlerError marks an error that came from the consumer's own function.
type handlerError struct{ error }

func (e handlerError) Unwrap() error { return e.error }

// Watch delivers events to handle until ctx ends, handle fails or the Client is closed, and returns that error. It doesn't
// return when podconfigd can't be reached or goes away: it tries again, for as long as it takes. It does return
// INVALID_ARGUMENT, which no second try would mend.
func (c *Client) Watch(ctx context.Context, opts WatchOptions, handle func(context.Context, Event) error) error {
	w := &watcher{client: c, handle: handle, held: newHeld(opts)}
	backoff := newBackoff()
	lastError := ""
	for {
		synced, err := w.session(ctx)
		var own handlerError
		switch {
		case errors.As(err, &own):
			return own.error
		case ctx.Err() != nil:
			return ctx.Err()
		case c.isClosed():
			return ErrClosed
		case status.Code(err) == codes.InvalidArgument:
			return fmt.Errorf("subscribe to podconfigd at %s: %w", c.cfg.Endpoint, err)
		}
		if status.Code(err) == codes.Unimplemented {
			// Snapshots were asked of a newer podconfigd; this one is older and has them not.
			w.mode = podconfigv1.NotificationMode_NOTIFICATION_MODE_UNSPECIFIED
		}
		if synced {
			backoff, lastError = newBackoff(), ""
		}
		pause := backoff.Step()
		// The same error again and again is one message.
		if err.Error() != lastError {
			lastError = err.Error()
			c.cfg.Logger.Warn("no stream from podconfigd; what runs goes on running, subscribing again until it is back",
				"endpoint", c.cfg.Endpoint, "error", err, "retry_in", pause)
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

func (c *Client) isClosed() bool {
	select {
	case <-c.closed:
		return true
	default:
		return false
	}
}

// newBackoff is 50 ms doubling to 2 s: podconfigd is on this node, and a restart of it takes less than a second.
func newBackoff() wait.Backoff {
	return wait.Backoff{Duration: 50 * time.Millisecond, Factor: 2, Jitter: 0.5, Steps: 7, Cap: 2 * time.Second}
}

// watcher is one consumer, across its streams.
type watcher struct {
	client *Client
	handle func(context.Context, Event) error
	held   *held
	mode   podconfigv1.NotificationMode
}

// session is one stream: it delivers events until the stream breaks, and tells whether it got as far as synced.
func (w *watcher) session(outer context.Context) (synced bool, err error) {
	ctx, cancel := context.WithCancelCause(outer)
	defer cancel(nil)
	silence := 3 * w.client.cfg.Heartbeat
	watchdog := time.AfterFunc(silence, func() { cancel(fmt.Errorf("no sign of life for %v", silence)) })
	defer watchdog.Stop()
	w.held.startStream()
	stream, err := w.client.api.WatchPodUpdates(ctx, w.request())
	if err != nil {
		return false, err
	}
	var buffer []Change
	for {
		msg, err := stream.Recv()
		if err != nil {
			if cause := context.Cause(ctx); cause != nil {
				err = cause
			}
			return synced, err
		}
		// Handling may take its time; only podconfigd's silence counts.
		watchdog.Stop()
		event := Event{Cursor: msg.GetCursor()}
		switch e := msg.GetEvent().(type) {
		case *podconfigv1.WatchPodUpdatesResponse_Update:
			change, err := w.decode(e.Update)
			if err != nil {
				return synced, err
			}
			buffer = append(buffer, change)
			if msg.GetContinued() || msg.GetCursor() == nil {
				watchdog.Reset(silence)
				continue
			}
			event.Ops, buffer = buffer, nil
		case *podconfigv1.WatchPodUpdatesResponse_Synced:
			synced = true
			event.Synced, event.Sources = true, decodeSources(e.Synced.GetSources())
			// Before it may stand a SET, which says what to remove only together with the sources that are ready.
			event.Ops, buffer = buffer, nil
			w.client.cfg.Logger.Info("in step with podconfigd", "endpoint", w.client.cfg.Endpoint, "revision", msg.GetCursor().GetRevision())
		default:
			watchdog.Reset(silence)
			continue
		}
		// The consumer gets Watch's own context: the stream's may end by the watchdog, which isn't the consumer's affair.
		if err := w.deliver(outer, event); err != nil {
			return synced, err
		}
		watchdog.Reset(silence)
	}
}

// decode refuses ops and formats that it doesn't know, and asks for snapshots from then on, rather than guess.
func (w *watcher) decode(u *podconfigv1.PodUpdate) (Change, error) {
	if _, known := podconfigv1.PodOperation_name[int32(u.GetOp())]; !known || u.GetOp() == 0 {
		w.mode = podconfigv1.NotificationMode_NOTIFICATION_MODE_SNAPSHOT
		return Change{}, fmt.Errorf("podconfigd sent op %d, which this version doesn't know; subscribing to snapshots", u.GetOp())
	}
	return decodeChange(u)
}

// deliver hands the event to the consumer, and remembers it as applied if the consumer took it. What is certain only with
// synced comes right before it.
func (w *watcher) deliver(ctx context.Context, e Event) error {
	e.Ops = w.held.interpret(e)
	if e.Synced && len(e.Ops) > 0 {
		if err := w.deliverOne(ctx, Event{Ops: e.Ops, Cursor: e.Cursor}); err != nil {
			return err
		}
		e.Ops = nil
	}
	return w.deliverOne(ctx, e)
}

func (w *watcher) deliverOne(ctx context.Context, e Event) error {
	if len(e.Ops) > 0 || e.Synced {
		if err := w.handle(ctx, e); err != nil {
			return handlerError{err}
		}
	}
	w.held.applied(e)
	return nil
}

func (w *watcher) request() *podconfigv1.WatchPodUpdatesRequest {
	return &podconfigv1.WatchPodUpdatesRequest{
		Consumer: w.client.cfg.Consumer, Mode: w.mode, Format: podconfigv1.PodFormat_POD_FORMAT_PROTOBUF,
		ResumeAfter: w.held.cursor, KnownPods: w.held.known(), HeartbeatInterval: durationpb.New(w.client.cfg.Heartbeat),
	}
}
