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
	// spliceBuffer is what one direction of a stream holds at most: a caller who doesn't read stops the container that writes.
	spliceBuffer = 16 << 10
	// linger is how long one direction may be silent after the other's end.
	linger = 10 * time.Second
)

// closeWriter is a connection of which one direction can be ended.
type closeWriter interface{ CloseWrite() error }

// splice sends the head, if there is one, to the caller, and then carries what each of the two says to the other, until both have ended what they say,
// nothing was said for the idle time (for linger, if one has ended), a connection broke, or ctx has ended. It closes both.
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
	// A blocked read or write ends with its connection only.
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
