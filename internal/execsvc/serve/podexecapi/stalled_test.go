package podexecapi

import (
	"context"
	"errors"
	"fmt"
	"io"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/podstream/podstream/internal/access"
	"github.com/podstream/podstream/internal/execsvc/cri/runtime"
	"github.com/podstream/podstream/internal/execsvc/setup/foreign/tree"
	"github.com/podstream/podstream/internal/execsvc/setup/storage/claimvolumes"
	"github.com/podstream/podstream/internal/execsvc/setup/storage/directory"
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

// exporter exports what it is.
type exporter func(ctx context.Context, out io.Writer) error

func (exporter) List(context.Context, string, int) ([]claimvolumes.Volume, string, error) {
	return nil, "", nil
}

func (exporter) Remove(context.Context, directory.Claim) (string, error) { return "", nil }

func (e exporter) Export(ctx context.Context, _ directory.Claim, _ claimvolumes.Limits, out io.Writer) (tree.Moved, error) {
	return tree.Moved{}, e(ctx, out)
}

func (exporter) Import(context.Context, directory.Claim, claimvolumes.Limits, bool, io.ReadCloser) (tree.Moved, error) {
	return tree.Moved{}, nil
}

// TestStalledExportsEnd: an export whose caller doesn't read ends when Volumes gives it up, though a message is still being sent,
// and its place is free then. Nothing is sent after the call.
func TestStalledExportsEnd(t *testing.T) {
	var later error
	wrote := make(chan struct{})
	s := New(Config{Board: boardOf(), Volumes: exporter(func(_ context.Context, out io.Writer) error {
		ready := make(chan struct{})
		go func() {
			defer close(wrote)
			_, _ = io.WriteString(out, "first")
			close(ready)
			_, _ = io.WriteString(out, "blocked")
			_, later = io.WriteString(out, "later")
		}()
		<-ready
		return fmt.Errorf("send the archive: %w", claimvolumes.ErrStalled)
	})})
	req := &podexecv1.ExportVolumeRequest{Name: "data"}
	for range maxArchives { // All places are taken.
		s.volumeArchives <- struct{}{}
	}
	stream := stalled[podexecv1.ExportVolumeRequest, podexecv1.ExportVolumeResponse](t, req)
	if err := s.ExportVolume(req, stream); status.Code(err) != codes.ResourceExhausted {
		t.Errorf("without a place: %v", err)
	}
	<-s.volumeArchives
	if err := s.ExportVolume(req, stream); status.Code(err) != codes.DeadlineExceeded {
		t.Errorf("the export ends with %v; want DEADLINE_EXCEEDED", err)
	}
	if n := len(s.volumeArchives); n != maxArchives-1 {
		t.Errorf("%d places are taken; want %d", n, maxArchives-1)
	}
	close(stream.release)
	<-wrote
	if !errors.Is(later, io.ErrClosedPipe) || stream.sent > 2 {
		t.Errorf("after the call: %v; %d messages were sent", later, stream.sent)
	}
}
