package runtime

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"testing"

	"k8s.io/streaming/pkg/httpstream"
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

// unanswered is a connection to a runtime that answers no request for a stream before release.
type unanswered struct {
	httpstream.Connection

	asked   chan http.Header
	release chan struct{}
}

// CreateStream implements httpstream.Connection.
func (u unanswered) CreateStream(headers http.Header) (httpstream.Stream, error) {
	u.asked <- headers
	<-u.release
	return nil, errors.New("late")
}

// A runtime that doesn't answer doesn't keep a caller that has gone.
func TestOpenStreamEndsWithItsCaller(t *testing.T) {
	conn := unanswered{asked: make(chan http.Header, 1), release: make(chan struct{})}
	ctx, cancel := context.WithCancel(t.Context())
	headers := http.Header{"Streamtype": {"error"}}
	ended := make(chan error, 1)
	go func() {
		_, err := openStream(ctx, conn, headers)
		ended <- err
	}()
	asked := <-conn.asked
	cancel()
	if err := <-ended; !errors.Is(err, context.Canceled) {
		t.Errorf("it ends with %v", err)
	}
	headers.Set("Streamtype", "data") // The request goes on with the headers that it was made with.
	if got := asked.Get("Streamtype"); got != "error" {
		t.Errorf("the request's header is %q", got)
	}
	close(conn.release)
}
