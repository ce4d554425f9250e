package runtime

import (
	"context"
	"errors"
	"io"
	"net"
	"testing"
)

// A connection ends with its caller, also if the pod neither reads nor sends.
func TestForwardPortEndsWithItsCaller(t *testing.T) {
	connected, gone := make(chan struct{}), make(chan struct{})
	r := listening(t, func(*net.TCPConn) {
		close(connected)
		<-gone
	})
	defer close(gone)
	ctx, cancel := context.WithCancel(t.Context())
	reader, writer := io.Pipe()
	defer writer.Close()
	ended := make(chan error, 1)
	go func() {
		ended <- r.ForwardPort(ctx, PortInput{
			UID: "uid-1", Port: 80, In: reader, Out: io.Discard, OutEnded: func() error { return nil },
		})
	}()
	<-connected
	cancel()
	if err := <-ended; !errors.Is(err, context.Canceled) {
		t.Errorf("it ends with %v", err)
	}
}
