package podexecapi

import (
	"bytes"
	"context"
	"errors"
	"io"
	"math"
	"sync"
	"sync/atomic"

	"google.golang.org/grpc"

	"github.com/podstream/podstream/internal/execsvc/cri/runtime"
	podexecv1 "github.com/podstream/podstream/proto/podexec/v1"
)

// session connects a call with the streams of a process in a container. Req and Res are the call's messages.
type session[Req, Res any] struct {
	stream grpc.BidiStreamingServer[Req, Res]
	// input reads a message of the caller after the first.
	input func(*Req) input
	// stdin is set if the process gets the caller's input. discard is set if it doesn't, and input isn't a mistake.
	stdin, discard bool
	// unfinished is the mistake of a caller whose messages end without an end of the input. Nil: it is none.
	unfinished error
	// size is the first size of the terminal. Nil: it isn't known.
	size *podexecv1.TerminalSize
	// stdout and stderr make a message of output. Nil: that isn't sent.
	stdout, stderr func([]byte) *Res
}

// input is a caller's message after the first.
type input struct {
	data   []byte
	closed bool
	size   *podexecv1.TerminalSize
	// mistake is the error of a message that isn't valid. It ends the call.
	mistake error
}

// run calls do with the process's streams, and returns its error, the caller's mistake, or the end of the call or of s.
// in has what isn't a stream.
func (p session[Req, Res]) run(
	ctx context.Context, s *Server, in runtime.ExecInput, do func(context.Context, runtime.ExecInput) error,
) error {
	ctx, fail := context.WithCancelCause(ctx)
	defer fail(nil)
	out := &sender[Res]{stream: p.stream}
	if in.Stdout = io.Discard; p.stdout != nil {
		in.Stdout = out.writer(p.stdout)
	}
	if p.stderr != nil {
		in.Stderr = out.writer(p.stderr)
	}
	receiver := receiver[Req]{
		stream: p.stream, input: p.input, discard: p.discard, unfinished: p.unfinished, sizes: make(chan runtime.TerminalSize, 1),
	}
	if p.stdin {
		reader, writer := io.Pipe()
		defer func() { _ = reader.Close() }()
		in.Stdin, receiver.stdin = reader, writer
	}
	if in.TTY {
		in.Resize = receiver.sizes
		receiver.resize(p.size)
	}
	// It blocks in Recv, so it ends when the call does.
	go func() {
		if err := receiver.run(); err != nil {
			fail(err)
			receiver.closeStdin()
		}
	}()
	err := do(ctx, in)
	out.close()
	switch mistake := context.Cause(ctx); {
	case mistake != nil && !errors.Is(mistake, context.Canceled) && !errors.Is(mistake, context.DeadlineExceeded):
		return mistake
	case ctx.Err() != nil:
		return s.ended(ctx)
	}
	return err
}

// runner is run as a value.
func (p session[Req, Res]) runner(s *Server) runner {
	return func(ctx context.Context, in runtime.ExecInput, do func(context.Context, runtime.ExecInput) error) error {
		return p.run(ctx, s, in, do)
	}
}

// runner calls do with streams for in.
type runner func(ctx context.Context, in runtime.ExecInput, do func(context.Context, runtime.ExecInput) error) error

// firstMessage receives the first message, but doesn't wait beyond ctx. Its goroutine ends with the call.
func firstMessage[Req any](ctx context.Context, stream interface{ Recv() (*Req, error) }) (*Req, error) {
	var (
		message *Req
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

// receiver receives the messages after the first.
type receiver[Req any] struct {
	stream interface{ Recv() (*Req, error) }
	input  func(*Req) input
	// stdin is nil if the process gets no input. With discard input is then dropped, otherwise it is a mistake.
	stdin      *io.PipeWriter
	discard    bool
	unfinished error
	// sizes holds the newest size that hasn't been taken yet.
	sizes chan runtime.TerminalSize
}

// run returns the caller's mistake, or nil at the end of the messages.
func (r receiver[Req]) run() error {
	closed := false
	for {
		m, err := r.stream.Recv()
		if errors.Is(err, io.EOF) && !closed && r.unfinished != nil {
			return r.unfinished
		}
		if err != nil {
			// The end of the messages ends the standard input too. A broken call ends by itself.
			r.closeStdin()
			return nil //nolint:nilerr // It isn't the caller's mistake.
		}
		switch in := r.input(m); {
		case in.mistake != nil:
			return in.mistake
		case in.closed:
			closed = true
			r.closeStdin()
		case in.size != nil:
			r.resize(in.size)
		case len(in.data) == 0: // A message of a later version, or an empty one.
		case r.stdin != nil:
			// That the process doesn't read any more isn't the caller's error.
			_, _ = r.stdin.Write(in.data)
		case !r.discard:
			return invalidArgument("stdin: start didn't ask for it")
		}
	}
}

func (r receiver[Req]) closeStdin() {
	if r.stdin != nil {
		_ = r.stdin.Close()
	}
}

func (r receiver[Req]) resize(size *podexecv1.TerminalSize) {
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

// sender sends what a process or a port writes, from several goroutines. A runtime may still write for a moment after the
// call has ended.
type sender[Res any] struct {
	mu     sync.Mutex
	stream interface{ Send(*Res) error }
	over   atomic.Bool
}

// send sends a message, unless the sender is closed.
func (s *sender[Res]) send(m *Res) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.over.Load() {
		return io.ErrClosedPipe
	}
	return s.stream.Send(m)
}

// writer returns a writer that sends pieces of what is written, as messages.
func (s *sender[Res]) writer(message func([]byte) *Res) writerFunc {
	return func(p []byte) error {
		for len(p) > 0 {
			n := min(len(p), maxPiece)
			// The writer reuses its buffer, and a message that was sent must not be changed.
			if err := s.send(message(bytes.Clone(p[:n]))); err != nil {
				return err
			}
			p = p[n:]
		}
		return nil
	}
}

// close makes later messages fail. It doesn't wait for one that is blocked because the caller doesn't read: that ends
// with the call.
func (s *sender[Res]) close() { s.over.Store(true) }
