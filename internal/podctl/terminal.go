package podctl

import (
	"context"
	"fmt"
	"io"
	"math"
	"os"
	"os/signal"
	"syscall"

	"golang.org/x/term"
	"google.golang.org/protobuf/proto"

	podexecv1 "github.com/podstream/podstream/proto/podexec/v1"
)

// terminal is the terminal of podctl's standard input. Nil means none; its methods then do nothing.
type terminal struct{ fd int }

// terminalOf returns the terminal that in reads from, or nil.
func terminalOf(in io.Reader) *terminal {
	file, ok := in.(*os.File)
	if !ok || !term.IsTerminal(int(file.Fd())) { //nolint:gosec // A descriptor is small.
		return nil
	}
	return &terminal{int(file.Fd())} //nolint:gosec // A descriptor is small.
}

// isTerminal reports whether w is a terminal.
func isTerminal(w io.Writer) bool {
	file, ok := w.(*os.File)
	return ok && term.IsTerminal(int(file.Fd())) //nolint:gosec // A descriptor is small.
}

// raw passes on each key as it is pressed, including Ctrl-C, until restore is called.
func (t *terminal) raw() (restore func(), err error) {
	if t == nil {
		return func() {}, nil
	}
	before, err := term.MakeRaw(t.fd)
	if err != nil {
		return nil, fmt.Errorf("set the terminal to raw mode: %w", err)
	}
	return func() { _ = term.Restore(t.fd, before) }, nil
}

// untilHangup returns a context that ends at a hangup, which would otherwise end podctl at once and leave the
// terminal raw. A broken pipe becomes a failed write.
func untilHangup(ctx context.Context) (hangup context.Context, release func()) {
	ctx, stop := signal.NotifyContext(ctx, syscall.SIGHUP, syscall.SIGQUIT)
	pipes := make(chan os.Signal, 1) // No goroutine reads it: while it is registered, the signal has no other effect.
	signal.Notify(pipes, syscall.SIGPIPE)
	return ctx, func() {
		signal.Stop(pipes)
		stop()
	}
}

// size returns nil if it can't be read.
func (t *terminal) size() *podexecv1.TerminalSize {
	if t == nil {
		return nil
	}
	width, height, err := term.GetSize(t.fd)
	if err != nil || width < 0 || height < 0 || width > math.MaxUint16 || height > math.MaxUint16 {
		return nil
	}
	return &podexecv1.TerminalSize{Width: uint32(width), Height: uint32(height)}
}

// watchSize calls send for each size that differs from the last one, until stop. stop waits for the last call.
func (t *terminal) watchSize(last *podexecv1.TerminalSize, send func(*podexecv1.TerminalSize)) (stop func()) {
	if t == nil {
		return func() {}
	}
	changed := make(chan os.Signal, 1)
	signal.Notify(changed, syscall.SIGWINCH)
	done := make(chan struct{})
	go func() {
		defer close(done)
		// The size may have changed before the signal was registered.
		for open := true; open; _, open = <-changed {
			if size := t.size(); size != nil && !proto.Equal(size, last) {
				send(size)
				last = size
			}
		}
	}()
	return func() {
		signal.Stop(changed)
		close(changed)
		<-done
	}
}
