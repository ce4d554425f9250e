package runtime

import (
	"context"
	"errors"
	"fmt"
	"io"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"k8s.io/client-go/tools/remotecommand"
	utilexec "k8s.io/utils/exec"
)

// ErrNoStreaming is what Exec returns if standard input or a terminal is wanted of a runtime that streams nothing.
var ErrNoStreaming = errors.New("the container runtime can run a command, but with neither standard input nor a terminal")

// ExecInput is a command to be run in a container.
type ExecInput struct {
	ContainerID string
	Command     []string
	// TTY gives the command a terminal: what it writes all goes to Stdout then.
	TTY bool
	// Stdin is the command's standard input. Nil: it has none. Exec may still be reading of it when it returns, so the caller has to
	// end it.
	Stdin io.Reader
	// Stdout and Stderr are written to side by side, and not after Exec's return unless ctx has ended.
	Stdout, Stderr io.Writer
	// Resize brings the sizes of the terminal. Nil: it keeps the one that it has.
	Resize <-chan TerminalSize
}

// TerminalSize is in characters.
type TerminalSize struct{ Width, Height uint16 }

// Exec runs a command in a running container to its end, and returns its exit code. An error means that the command wasn't run, or that
// its end isn't known. When ctx ends Exec leaves the command; a runtime ends it once it can't write any more.
func (r *Runtime) Exec(ctx context.Context, in ExecInput) (exitCode int, err error) {
	u, err := r.ExecURL(ctx, in.streams())
	switch {
	case status.Code(err) == codes.Unimplemented && in.Stdin == nil && !in.TTY:
		return r.execSync(ctx, in)
	case status.Code(err) == codes.Unimplemented:
		return 0, ErrNoStreaming
	case err != nil:
		return 0, err
	}
	return exitCodeOf(converse(ctx, u, in))
}

// streams are those that are wanted.
func (in *ExecInput) streams() StreamInput {
	return StreamInput{
		ContainerID: in.ContainerID, Command: in.Command, Stdin: in.Stdin != nil, Stdout: true, Stderr: !in.TTY, TTY: in.TTY,
	}
}

// execSync is for runtimes without streams: what the command writes comes at its end.
func (r *Runtime) execSync(ctx context.Context, in ExecInput) (int, error) {
	stdout, stderr, err := r.cfg.Runtime.ExecSync(ctx, in.ContainerID, in.Command, 0)
	code, err := exitCodeOf(err)
	if err != nil {
		return 0, err
	}
	if _, err := in.Stdout.Write(stdout); err != nil {
		return 0, fmt.Errorf("pass on the command's output: %w", err)
	}
	if _, err := in.Stderr.Write(stderr); err != nil {
		return 0, fmt.Errorf("pass on the command's output: %w", err)
	}
	return code, nil
}

func exitCodeOf(err error) (int, error) {
	if exit, ok := errors.AsType[utilexec.ExitError](err); ok && exit.Exited() {
		return exit.ExitStatus(), nil
	}
	if err != nil {
		return 0, fmt.Errorf("run the command: %w", err)
	}
	return 0, nil
}

// sizes are a terminal's sizes as the executor asks for them, until the context ends.
type sizes struct {
	ctx    context.Context //nolint:containedctx // The executor's interface has none.
	resize <-chan TerminalSize
}

// Next implements remotecommand.TerminalSizeQueue.
func (s sizes) Next() *remotecommand.TerminalSize {
	select {
	case size, ok := <-s.resize:
		if !ok {
			return nil
		}
		return &remotecommand.TerminalSize{Width: size.Width, Height: size.Height}
	case <-s.ctx.Done():
		return nil
	}
}
