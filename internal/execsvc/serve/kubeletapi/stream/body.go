package stream

import (
	"bufio"
	"context"
	"net/http"
	"time"
)

// body is a response that is sent in large pieces while there is more to read, and at once when there isn't. It ends
// if the caller doesn't read for the idle time.
type body struct {
	control *http.ResponseController
	buffer  *bufio.Writer
	idle    time.Duration
	// sent is set once a part of it, or its header, may have been sent.
	sent bool
	// unwatch stops watching the request's context.
	unwatch func()
}

func newBody(ctx context.Context, w http.ResponseWriter, idle time.Duration, buffer int) *body {
	b := &body{control: http.NewResponseController(w), idle: idle}
	b.buffer = bufio.NewWriterSize(writerFunc(func(p []byte) (int, error) {
		b.sent = true
		_ = b.control.SetWriteDeadline(time.Now().Add(idle)) // As far as the connection can.
		if ctx.Err() != nil {
			return 0, ctx.Err()
		}
		return w.Write(p)
	}), buffer)
	// A blocked write ends with the request. The deadline is removed after the response, because later ones use the
	// same connection.
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
func (b *body) Write(p []byte) (int, error) { return b.buffer.Write(p) }

// flush sends the buffered data; the header, if there is none.
func (b *body) flush() error {
	b.sent = true
	if err := b.buffer.Flush(); err != nil {
		return err
	}
	return b.control.Flush()
}

// end resets the connection's deadline.
func (b *body) end() {
	b.unwatch()
	_ = b.control.SetWriteDeadline(time.Time{})
}

// writerFunc is a writer of one function.
type writerFunc func(p []byte) (int, error)

// Write implements io.Writer.
func (f writerFunc) Write(p []byte) (int, error) { return f(p) }
