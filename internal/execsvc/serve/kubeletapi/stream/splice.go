package stream

import (
	"context"
	"io"
	"net"
	"sync"
	"time"
)

const (
	// spliceBuffer is the buffer of one direction of a stream: if the caller doesn't read, the container that writes
	// blocks.
	spliceBuffer = 16 << 10
	// linger is how long one direction may be silent after the other's end.
	linger = 10 * time.Second
)

// closeWriter is a connection that can end one direction.
type closeWriter interface{ CloseWrite() error }

// splice sends the head, if there is one, to the caller, and then copies in both directions until both have ended,
// nothing was sent for the idle time (for linger, if one has ended), the caller's connection broke, or ctx has ended.
// It closes both. What the backend sent before its end, or before its connection broke, reaches the caller.
func splice(ctx context.Context, caller, backend io.ReadWriteCloser, head string, idle time.Duration) {
	ctx, cancel := context.WithCancel(ctx)
	var once sync.Once
	closeBoth := func() {
		once.Do(func() {
			_ = caller.Close()
			_ = backend.Close()
		})
	}
	defer closeBoth()
	// A blocked read or write ends only with its connection.
	stop := context.AfterFunc(ctx, closeBoth)
	defer stop()
	defer cancel()
	if conn, ok := caller.(net.Conn); ok {
		_ = conn.SetDeadline(time.Time{}) // The HTTP server's, if it has one, was for the request.
	}
	quiet := time.AfterFunc(idle, cancel)
	defer quiet.Stop()
	if head != "" {
		if _, err := io.WriteString(caller, head); err != nil {
			return
		}
	}
	var mu sync.Mutex
	patience := idle
	// progress is called when data was read, and ended when one direction has ended.
	progress := func() {
		mu.Lock()
		defer mu.Unlock()
		quiet.Reset(patience)
	}
	ended := func() {
		mu.Lock()
		defer mu.Unlock()
		patience = min(idle, linger)
		quiet.Reset(patience)
	}
	// carry copies one direction, and tells which side broke.
	carry := func(to io.Writer, from io.Reader) (readErr, writeErr error) {
		// Only Read and Write are used: splicing in the kernel would show no progress.
		_, err := io.CopyBuffer(writerFunc(func(p []byte) (int, error) {
			progress()
			n, err := to.Write(p)
			writeErr = err
			return n, err
		}), struct{ io.Reader }{from}, make([]byte, spliceBuffer))
		if writeErr != nil {
			return nil, writeErr
		}
		return err, nil
	}
	var directions sync.WaitGroup
	directions.Go(func() {
		// A runtime that closes its connection while it is sent input resets it: that is an end like any other.
		if _, err := carry(caller, backend); err != nil || !closeWrite(caller) {
			cancel()
			return
		}
		ended()
	})
	directions.Go(func() {
		gone, closed := carry(backend, caller)
		switch {
		case gone != nil || closed == nil && !closeWrite(backend):
			cancel()
		case closed != nil:
			// The runtime reads no more, but its last output may still be on its way to the caller. A connection that is
			// closed with unread data loses that.
			ended()
			_, _ = io.Copy(io.Discard, struct{ io.Reader }{caller})
		default:
			ended()
		}
	})
	directions.Wait()
}

// closeWrite ends the direction to a connection, and reports whether it could.
func closeWrite(to io.Writer) bool {
	half, ok := to.(closeWriter)
	return ok && half.CloseWrite() == nil
}
