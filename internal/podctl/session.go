package podctl

import (
	"context"
	"errors"
	"io"
	"sync"

	"google.golang.org/grpc"

	podconfigv1 "github.com/podstream/podstream/proto/podconfig/v1"
	podexecv1 "github.com/podstream/podstream/proto/podexec/v1"
)

// connectPod returns the reference of podexecd's pod with this name, and a connection for a call about it that may stay open
// for long. The caller closes the connection, which ends the call.
func (t *tool) connectPod(ctx context.Context, p podName) (*podconfigv1.PodRef, *connection, error) {
	ref, err := t.findObserved(ctx, p)
	if err != nil {
		return nil, nil, err
	}
	conn, err := t.podexecd.connect(t.userAgent(), heldOpen...)
	return ref, conn, err
}

// console is podctl's side of a process in a container: of exec and attach.
type console struct {
	// stdin is set if standard input is passed on.
	stdin bool
	// own is podctl's terminal, if the process has one too. Nil: one of them has none.
	own *terminal
}

// terminal returns podctl's terminal if it is wanted, or nil.
func (t *tool) terminal(wanted bool) *terminal {
	if !wanted {
		return nil
	}
	own := terminalOf(t.Stdin)
	if own == nil {
		// A command on a terminal isn't informed when a file or a pipe ends: it would wait for more input.
		t.note("standard input isn't a terminal: the command doesn't get one either")
	}
	return own
}

// raw reports whether each key is passed on as it is pressed.
func (c console) raw() bool { return c.stdin && c.own != nil }

// lineEnd ends a line of podctl's own, while the terminal is raw or not.
func (c console) lineEnd() string {
	if c.raw() {
		return "\r\n"
	}
	return "\n"
}

// untilHangup is the function of that name, if the terminal is raw or may become so.
func (c console) untilHangup(ctx context.Context) (hangup context.Context, release func()) {
	if !c.raw() {
		return ctx, func() {}
	}
	return untilHangup(ctx)
}

// enter makes the terminal raw, if keys are passed on, until restore is called.
func (c console) enter() (restore func(), err error) {
	if !c.raw() {
		return func() {}, nil
	}
	return c.own.raw()
}

// sender sends the messages of a call, from two goroutines.
type sender[Req any] struct {
	stream interface{ Send(*Req) error }
	// stdin, closed and resize make a message of input.
	stdin  func([]byte) *Req
	closed func() *Req
	resize func(*podexecv1.TerminalSize) *Req

	mu sync.Mutex
}

func (s *sender[Req]) send(m *Req) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.stream.Send(m)
}

// pass passes on standard input and the sizes of the terminal that differ from the last one. The call must have ended
// when stop is called.
func (s *sender[Req]) pass(c console, in io.Reader, last *podexecv1.TerminalSize) (stop func()) {
	stop = c.own.watchSize(last, func(size *podexecv1.TerminalSize) { _ = s.send(s.resize(size)) })
	if c.stdin {
		// A read from a terminal can't be interrupted: the goroutine ends with the process.
		go s.copyStdin(in)
	}
	return stop
}

// copyStdin sends standard input to its end. The receiving side reports an error of the stream.
func (s *sender[Req]) copyStdin(in io.Reader) {
	for {
		data := make([]byte, maxPiece) // A message that was sent must not be changed.
		n, err := in.Read(data)
		if n > 0 && s.send(s.stdin(data[:n])) != nil {
			return
		}
		if err != nil {
			_ = s.send(s.closed())
			return
		}
	}
}

// maxPiece is the size of a piece of input, or of an archive. podexecd accepts 64 KiB.
const maxPiece = 32 << 10

// endOf returns why a stream ended on which nothing could be sent. response is an empty one of the stream.
func endOf(stream grpc.ClientStream, response any, sendErr error) error {
	if !errors.Is(sendErr, io.EOF) {
		return sendErr
	}
	return stream.RecvMsg(response)
}
