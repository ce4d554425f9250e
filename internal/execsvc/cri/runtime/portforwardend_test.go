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
	// Data is read from the caller once the runtime has answered. The test's runtime may end before it answers otherwise.
	if _, err := io.WriteString(writer, "data"); err != nil {
		t.Fatal(err)
	}
	cancel()
	if err := <-ended; !errors.Is(err, context.Canceled) {
		t.Errorf("it ends with %v", err)
	}
}
