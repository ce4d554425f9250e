package client_test

import (
	"errors"
	"testing"

	"github.com/podstream/podstream/client"
	"github.com/podstream/podstream/client/stream"
	podconfigv1 "github.com/podstream/podstream/proto/podconfig/v1"
)

// TestEndlessRevision: a lying podconfigd sends a SET without end over a socket. Its stream is ended at the bound, nothing of
// it is delivered, and the consumer goes on where it was.
func TestEndlessRevision(t *testing.T) {
	s := newScript(
		func(s serverStream) error {
			send(s, update(1, client.Add, "one"))
			send(s, synced(1))
			return broken
		},
		func(s serverStream) error {
			part := update(0, podconfigv1.PodOperation_POD_OPERATION_SET, "lie")
			part.Cursor, part.Continued = nil, true
			for {
				if err := s.Send(part); err != nil {
					return err
				}
			}
		},
		func(s serverStream) error {
			send(s, update(2, client.Add, "two"))
			send(s, synced(2))
			return broken
		},
	)
	p := testPlace(t)
	up(t, p, s)
	breaks := make(chan error, 10)
	w := watch(t, p, client.Config{OnBreak: func(err error) { breaks <- err }}, client.WatchOptions{MaxRevisionBytes: 64 << 10})
	w.want("ADD file: one")
	w.want("synced")
	w.want("ADD file: two")
	<-s.requests
	for range 2 {
		wantRequest(t, <-s.requests, 1, "one")
	}
	<-breaks
	err := <-breaks
	t.Logf("the stream of the lie ends with %v", err)
	if !errors.Is(err, stream.ErrTooLarge) {
		t.Errorf("the stream of the lie ends with %v; want ErrTooLarge", err)
	}
}
