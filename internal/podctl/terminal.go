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

// terminal is the one that podctl was started at. Nil: there is none, and its methods do nothing.
type terminal struct{ fd int }

// terminalOf is the terminal that in reads from, or nil.
func terminalOf(in io.Reader) *terminal {
	file, ok := in.(*os.File)
	if !ok || !term.IsTerminal(int(file.Fd())) { //nolint:gosec // A descriptor is small.
		return nil
	}
	return &terminal{int(file.Fd())} //nolint:gosec // A descriptor is small.
}

// raw has each key passed on as it is pressed, Ctrl-C too, until restore.
func (t *terminal) raw() (restore func(), err error) {
	if t == nil {
		return func() {}, nil
	}
	before, err := term.MakeRaw(t.fd)
	if err != nil {
		return nil, fmt.Errorf("have the terminal pass keys on: %w", err)
	}
	return func() { _ = term.Restore(t.fd, before) }, nil
}

// untilHangup has what would end podctl at once, and leave the terminal raw, end ctx; or a write fail, where nobody reads what is printed.
func untilHangup(ctx context.Context) (hangup context.Context, release func()) {
	ctx, stop := signal.NotifyContext(ctx, syscall.SIGHUP, syscall.SIGQUIT)
	pipes := make(chan os.Signal, 1) // Nobody reads of it: as long as it is there, the signal does nothing else.
	signal.Notify(pipes, syscall.SIGPIPE)
	return ctx, func() {
		signal.Stop(pipes)
		stop()
	}
}

// size is nil if it can't be told.
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

// watchSize tells of each size other than the last one that was told until stop, which waits for the last one to be told.
func (t *terminal) watchSize(last *podexecv1.TerminalSize, tell func(*podexecv1.TerminalSize)) (stop func()) {
	if t == nil {
		return func() {}
	}
	changed := make(chan os.Signal, 1)
	signal.Notify(changed, syscall.SIGWINCH)
	done := make(chan struct{})
	go func() {
		defer close(done)
		// It may have changed before it was watched.
		for open := true; open; _, open = <-changed {
			if size := t.size(); size != nil && !proto.Equal(size, last) {
				tell(size)
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
