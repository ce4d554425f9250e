package podexecapi

import (
	"context"
	"io"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/podstream/podstream/internal/access"
	"github.com/podstream/podstream/internal/execsvc/cri/runtime"
	podconfigv1 "github.com/podstream/podstream/proto/podconfig/v1"
	podexecv1 "github.com/podstream/podstream/proto/podexec/v1"
)

// stalledStream is a stream of a caller that reads the first message only.
type stalledStream[Req, Res any] struct {
	grpc.ServerStream
	ctx   context.Context
	start *Req
	// sent counts the messages; full is closed at the first that blocks, until release is closed.
	sent          int
	full, release chan struct{}
}

func (s *stalledStream[Req, Res]) Context() context.Context { return s.ctx }

func (s *stalledStream[Req, Res]) Recv() (*Req, error) {
	if start := s.start; start != nil {
		s.start = nil
		return start, nil
	}
	<-s.release
	return nil, io.EOF
}

func (s *stalledStream[Req, Res]) Send(*Res) error {
	if s.sent++; s.sent == 1 {
		return nil
	}
	close(s.full)
	<-s.release
	return io.ErrClosedPipe
}

func stalled[Req, Res any](t *testing.T, start *Req) *stalledStream[Req, Res] {
	return &stalledStream[Req, Res]{
		ctx: access.NewContext(t.Context(), operator), start: start, full: make(chan struct{}), release: make(chan struct{}),
	}
}

// A caller that doesn't read holds up neither the end of podexecd nor that of its pod.
func TestStalledCallersEnd(t *testing.T) {
	board := boardOf(twoContainers())
	s := New(Config{
		Board: board,
		Attach: attacher(func(ctx context.Context, in runtime.ExecInput) error {
			go func() { _, _ = io.WriteString(in.Stdout, "text") }()
			<-ctx.Done()
			return ctx.Err()
		}),
		Ports: forwarder(func(ctx context.Context, in runtime.PortInput) error {
			go func() { _, _ = io.WriteString(in.Out, "data") }()
			<-ctx.Done()
			return ctx.Err()
		}),
	})
	forward := stalled[podexecv1.PortForwardRequest, podexecv1.PortForwardResponse](t, startForward(80))
	ended := make(chan error, 1)
	go func() { ended <- s.PortForward(forward) }()
	<-forward.full
	board.Remove("uid-two")
	if err := <-ended; status.Code(err) != codes.FailedPrecondition {
		t.Errorf("after the pod's end: %v", err)
	}
	close(forward.release)

	board.Set(twoContainers())
	attach := stalled[podexecv1.AttachRequest, podexecv1.AttachResponse](t, &podexecv1.AttachRequest{
		Message: &podexecv1.AttachRequest_Start{Start: &podexecv1.AttachStart{Ref: &podconfigv1.PodRef{Name: "two"}, Container: "main"}},
	})
	go func() { ended <- s.Attach(attach) }()
	<-attach.full
	s.Close()
	if err := <-ended; status.Code(err) != codes.Unavailable {
		t.Errorf("after podexecd's end: %v", err)
	}
	close(attach.release)
}
