package podexecapi

import (
	"bytes"
	"context"
	"errors"
	"io"
	"math"
	"sync"

	"google.golang.org/grpc"

	"github.com/podstream/podstream/internal/execsvc/cri/runtime"
	podexecv1 "github.com/podstream/podstream/proto/podexec/v1"
)

// Execer runs commands in containers: a runtime.Runtime.
type Execer interface {
	Exec(ctx context.Context, in runtime.ExecInput) (exitCode int, err error)
}

type execStream = grpc.BidiStreamingServer[podexecv1.ExecRequest, podexecv1.ExecResponse]

// Exec is part of podexec.v1.PodExecService.
func (s *Server) Exec(stream execStream) error {
	if s.cfg.Exec == nil {
		return unimplemented("this podexecd runs no commands")
	}
	if err := permit(stream.Context(), podexecv1.PodExecService_Exec_FullMethodName); err != nil {
		return err
	}
	ctx, cancel := s.untilClosed(stream.Context())
	defer cancel()
	in, start, err := s.command(ctx, stream)
	if err != nil {
		return err
	}
	ctx, fail := context.WithCancelCause(ctx)
	defer fail(nil)

	sender := &execSender{stream: stream}
	receiver := execReceiver{stream: stream, sizes: make(chan runtime.TerminalSize, 1)}
	in.Stdout = sender.writer(func(p []byte) *podexecv1.ExecResponse {
		return &podexecv1.ExecResponse{Message: &podexecv1.ExecResponse_Stdout{Stdout: p}}
	})
	in.Stderr = sender.writer(func(p []byte) *podexecv1.ExecResponse {
		return &podexecv1.ExecResponse{Message: &podexecv1.ExecResponse_Stderr{Stderr: p}}
	})
	if start.GetStdin() {
		reader, writer := io.Pipe()
		defer func() { _ = reader.Close() }()
		in.Stdin, receiver.stdin = reader, writer
	}
	if in.TTY {
		in.Resize = receiver.sizes
		receiver.resize(start.GetSize())
	}
	// It blocks in Recv, so it ends when the call does.
	go func() {
		if err := receiver.run(); err != nil {
			fail(err)
		}
	}()
	code, err := s.cfg.Exec.Exec(ctx, in)
	sender.close()
	switch mistake := context.Cause(ctx); {
	case mistake != nil && !errors.Is(mistake, context.Canceled) && !errors.Is(mistake, context.DeadlineExceeded):
		return mistake
	case ctx.Err() != nil:
		return s.ended(ctx)
	case err != nil:
		return execError(err)
	}
	return stream.Send(&podexecv1.ExecResponse{Message: &podexecv1.ExecResponse_ExitCode{ExitCode: int32(code)}}) //nolint:gosec // 0 to 255.
}

// command reads the first message: the command and its container. If the container was chosen by default, the caller
// is notified.
func (s *Server) command(ctx context.Context, stream execStream) (runtime.ExecInput, *podexecv1.ExecStart, error) {
	v, err := s.view(ctx, nil)
	if err != nil {
		return runtime.ExecInput{}, nil, err
	}
	first, err := firstMessage(ctx, stream)
	start := first.GetStart()
	switch {
	case ctx.Err() != nil:
		return runtime.ExecInput{}, nil, s.ended(ctx)
	case err != nil && !errors.Is(err, io.EOF):
		return runtime.ExecInput{}, nil, err
	case start == nil:
		return runtime.ExecInput{}, nil, invalidArgument("start: must be the first message")
	case len(start.GetCommand()) == 0:
		return runtime.ExecInput{}, nil, invalidArgument("start.command: is empty")
	}
	pod, err := v.find(s.cfg.Board, start.GetRef())
	if err != nil {
		return runtime.ExecInput{}, nil, err
	}
	c, err := container(pod, start.GetContainer())
	if err != nil {
		return runtime.ExecInput{}, nil, err
	}
	switch {
	case c.State.Terminated != nil:
		return runtime.ExecInput{}, nil, failedPrecondition("container %s has ended", c.Name)
	case c.State.Running == nil:
		return runtime.ExecInput{}, nil, failedPrecondition("container %s isn't running: %s", c.Name, waitingReason(c.ContainerStatus))
	}
	if c.defaulted != nil {
		if err := stream.Send(&podexecv1.ExecResponse{Message: &podexecv1.ExecResponse_Defaulted{Defaulted: c.defaulted}}); err != nil {
			return runtime.ExecInput{}, nil, err
		}
	}
	return runtime.ExecInput{ContainerID: runtimeID(c.ContainerID), Command: start.GetCommand(), TTY: start.GetTty()}, start, nil
}

// firstMessage receives the first message, but doesn't wait beyond ctx. Its goroutine ends with the call.
func firstMessage(ctx context.Context, stream execStream) (*podexecv1.ExecRequest, error) {
	var (
		message *podexecv1.ExecRequest
		err     error
		came    = make(chan struct{})
	)
	go func() {
		defer close(came)
		message, err = stream.Recv()
	}()
	select {
	case <-came:
		return message, err
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// execReceiver receives the messages after the first.
type execReceiver struct {
	stream execStream
	// stdin is nil if the command has none.
	stdin *io.PipeWriter
	// sizes holds the newest size that hasn't been taken yet.
	sizes chan runtime.TerminalSize
}

// run returns the caller's error, or nil at the end of the messages.
func (r execReceiver) run() error {
	for {
		m, err := r.stream.Recv()
		if err != nil {
			// The end of the messages ends the standard input too. A broken call ends by itself.
			r.closeStdin()
			return nil //nolint:nilerr // It isn't the caller's mistake.
		}
		switch m := m.GetMessage().(type) {
		case *podexecv1.ExecRequest_Stdin:
			if r.stdin == nil {
				return invalidArgument("stdin: start didn't ask for it")
			}
			// That the command doesn't read any more isn't the caller's error.
			_, _ = r.stdin.Write(m.Stdin)
		case *podexecv1.ExecRequest_StdinClosed:
			r.closeStdin()
		case *podexecv1.ExecRequest_Resize:
			r.resize(m.Resize)
		case *podexecv1.ExecRequest_Start:
			return invalidArgument("start: came before")
		}
	}
}

func (r execReceiver) closeStdin() {
	if r.stdin != nil {
		_ = r.stdin.Close()
	}
}

func (r execReceiver) resize(size *podexecv1.TerminalSize) {
	if size == nil {
		return
	}
	select {
	case <-r.sizes:
	default:
	}
	r.sizes <- runtime.TerminalSize{
		Width:  uint16(min(size.GetWidth(), math.MaxUint16)),  //nolint:gosec // Bounded.
		Height: uint16(min(size.GetHeight(), math.MaxUint16)), //nolint:gosec // Bounded.
	}
}

// execSender sends a command's output, from two goroutines. A runtime may still write for a moment after the call
// has ended.
type execSender struct {
	mu     sync.Mutex
	stream execStream
	over   bool
}

func (s *execSender) writer(message func([]byte) *podexecv1.ExecResponse) writerFunc {
	return func(p []byte) error {
		s.mu.Lock()
		defer s.mu.Unlock()
		for len(p) > 0 {
			if s.over {
				return io.ErrClosedPipe
			}
			n := min(len(p), maxPiece)
			// The writer reuses its buffer, and a message that was sent must not be changed.
			if err := s.stream.Send(message(bytes.Clone(p[:n]))); err != nil {
				return err
			}
			p = p[n:]
		}
		return nil
	}
}

func (s *execSender) close() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.over = true
}
