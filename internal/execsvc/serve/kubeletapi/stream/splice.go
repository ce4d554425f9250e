package stream

import (
	"context"
	"io"
	"net"
	"sync"
	"sync/atomic"
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
// nothing was sent for the idle time (for linger, if one has ended), a connection broke, or ctx has ended. It closes
// both.
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
	var patience atomic.Int64
	patience.Store(int64(idle))
	carry := func(to io.WriteCloser, from io.Reader) {
		// Only Read and Write are used: splicing in the kernel would show no progress.
		_, err := io.CopyBuffer(writerFunc(func(p []byte) (int, error) {
			quiet.Reset(time.Duration(patience.Load()))
			return to.Write(p)
		}), struct{ io.Reader }{from}, make([]byte, spliceBuffer))
		half, ok := to.(closeWriter)
		if err != nil || !ok || half.CloseWrite() != nil {
			cancel()
			return
		}
		patience.Store(int64(min(idle, linger)))
		quiet.Reset(min(idle, linger))
	}
	var directions sync.WaitGroup
	directions.Go(func() { carry(caller, backend) })
	directions.Go(func() { carry(backend, caller) })
	directions.Wait()
}
