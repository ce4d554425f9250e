package stream

import (
	"bufio"
	"context"
	"errors"
	"io"
	"net/http"
	"time"

	"github.com/podstream/podstream/internal/execsvc/board"
	"github.com/podstream/podstream/internal/execsvc/runtime"
)

// logBuffer is how much of a log goes in one write, if there is so much to be read.
const logBuffer = 32 << 10

// logs sends a container's log, as it grows if that is wanted.
func (h *Handler) logs(w http.ResponseWriter, r *http.Request, pod board.Pod) error {
	options, err := parseLogOptions(r.URL.Query(), time.Now())
	if err != nil {
		return err
	}
	name := r.PathValue("container")
	c, ok := containerOf(pod, name)
	if !ok {
		return fail(http.StatusNotFound, "container %q not found in pod %q", name, pod.Name)
	}
	attempts, id, err := whichLog(pod.Name, c, options.previous)
	if err != nil {
		return err
	}
	follow := options.follow && id != "" // What has ended doesn't grow.
	if follow {
		leave, err := h.follows.take(pod.UID)
		if err != nil {
			return err
		}
		defer leave()
	}
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	w.Header().Set("X-Content-Type-Options", "nosniff")
	body := newLogBody(r.Context(), w, h.cfg.IdleTimeout)
	defer body.end()
	in := runtime.LogInput{
		UID: pod.UID, Namespace: pod.Namespace, Name: pod.Name, Container: name, ContainerID: id, Follow: follow,
		Since: options.since, TailLines: options.tail, LimitBytes: options.limit, Timestamps: options.timestamps, Idle: body.flush,
	}
	if options.stdout {
		in.Stdout = body
	}
	if options.stderr {
		in.Stderr = body
	}
	err = runtime.ErrNoLog
	for _, in.Attempt = range attempts {
		if err = h.cfg.Runtime.ReadLog(r.Context(), in); !errors.Is(err, runtime.ErrNoLog) {
			break
		}
	}
	switch {
	case errors.Is(err, runtime.ErrNoLog):
		return fail(http.StatusNotFound, "the log of container %q in pod %q isn't there any more", name, pod.Name)
	case err == nil || r.Context().Err() != nil:
		_ = body.flush() // Whoever is gone needs no answer.
		return nil
	case !body.sent:
		return err
	}
	// The status is sent already, so this is the one place left for it.
	_, _ = io.WriteString(body, err.Error()+"\n")
	_ = body.flush()
	return nil
}

// logBody is an answer that is sent in large pieces while there is more to be read, and at once when there isn't. A caller who doesn't
// read for the idle time is left.
type logBody struct {
	control *http.ResponseController
	buffer  *bufio.Writer
	idle    time.Duration
	// sent is set once some of it, or its head, may have been.
	sent bool
	// unwatch ends the watch over the request's context.
	unwatch func()
}

func newLogBody(ctx context.Context, w http.ResponseWriter, idle time.Duration) *logBody {
	b := &logBody{control: http.NewResponseController(w), idle: idle}
	b.buffer = bufio.NewWriterSize(writerFunc(func(p []byte) (int, error) {
		b.sent = true
		_ = b.control.SetWriteDeadline(time.Now().Add(idle)) // As far as the connection can.
		if ctx.Err() != nil {
			return 0, ctx.Err()
		}
		return w.Write(p)
	}), logBuffer)
	// A write that the caller doesn't take ends with the request. The deadline is set for as long as there is an answer only, as later ones
	// use the same connection.
	done := make(chan struct{})
	stop := context.AfterFunc(ctx, func() {
		defer close(done)
		_ = b.control.SetWriteDeadline(time.Unix(1, 0))
	})
	b.unwatch = func() {
		if !stop() {
			<-done
		}
	}
	return b
}

// Write implements io.Writer.
func (b *logBody) Write(p []byte) (int, error) { return b.buffer.Write(p) }

// flush sends what there is; the head, if there is nothing.
func (b *logBody) flush() error {
	b.sent = true
	if err := b.buffer.Flush(); err != nil {
		return err
	}
	return b.control.Flush()
}

// end leaves the connection as it was.
func (b *logBody) end() {
	b.unwatch()
	_ = b.control.SetWriteDeadline(time.Time{})
}

// writerFunc is a writer of one function.
type writerFunc func(p []byte) (int, error)

// Write implements io.Writer.
func (f writerFunc) Write(p []byte) (int, error) { return f(p) }
