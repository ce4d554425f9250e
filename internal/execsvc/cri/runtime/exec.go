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

// ErrNoStreaming is what Exec returns if standard input or a terminal is requested and the runtime doesn't stream.
var ErrNoStreaming = errors.New("the container runtime can run a command, but with neither standard input nor a terminal")

// ExecInput is a command to run in a container.
type ExecInput struct {
	ContainerID string
	Command     []string
	// TTY gives the command a terminal: all its output then goes to Stdout.
	TTY bool
	// Stdin is the command's standard input; nil for none. Exec may still read from it when it returns, so the caller
	// must close it.
	Stdin io.Reader
	// Stdout and Stderr are written to concurrently, and not after Exec's return unless ctx has ended.
	Stdout, Stderr io.Writer
	// Resize delivers new sizes of the terminal. Nil: the size doesn't change.
	Resize <-chan TerminalSize
}

// TerminalSize is in characters.
type TerminalSize struct{ Width, Height uint16 }

// Exec runs a command in a running container to its end, and returns its exit code. An error means that the command
// wasn't run, or that its end isn't known. When ctx ends, Exec returns, and the command's standard input ends. The command
// goes on: containerd lets it block when it writes.
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
	return exitCodeOf(r.converse(ctx, u, in))
}

// streams returns the streams that the command needs.
func (in *ExecInput) streams() StreamInput {
	return StreamInput{
		ContainerID: in.ContainerID, Command: in.Command, Stdin: in.Stdin != nil, Stdout: true, Stderr: !in.TTY, TTY: in.TTY,
	}
}

// execSync is for runtimes without streams: the command's output arrives at its end.
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

// sizes implements the executor's queue of terminal sizes, until the context ends.
type sizes struct {
	ctx    context.Context //nolint:containedctx // The executor's interface has no context.
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
