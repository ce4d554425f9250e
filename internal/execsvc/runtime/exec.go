package runtime

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/url"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	restclient "k8s.io/client-go/rest"
	"k8s.io/client-go/tools/remotecommand"
	"k8s.io/client-go/transport/spdy"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
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
	resp, err := r.cfg.Runtime.Exec(ctx, &runtimeapi.ExecRequest{
		ContainerId: in.ContainerID, Cmd: in.Command, Tty: in.TTY, Stdin: in.Stdin != nil, Stdout: true, Stderr: !in.TTY,
	})
	switch {
	case status.Code(err) == codes.Unimplemented && in.Stdin == nil && !in.TTY:
		return r.execSync(ctx, in)
	case status.Code(err) == codes.Unimplemented:
		return 0, ErrNoStreaming
	case err != nil:
		return 0, fmt.Errorf("ask the container runtime for a stream: %w", err)
	}
	executor, err := executorFor(resp.GetUrl())
	if err != nil {
		return 0, fmt.Errorf("the container runtime's stream: %w", err)
	}
	// What waits for sizes has to end with the command.
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	options := remotecommand.StreamOptions{Stdin: in.Stdin, Stdout: in.Stdout, Tty: in.TTY}
	if !in.TTY {
		options.Stderr = in.Stderr
	} else if in.Resize != nil {
		options.TerminalSizeQueue = sizes{ctx, in.Resize}
	}
	return exitCodeOf(executor.StreamWithContext(ctx, options))
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

// executorFor connects to where the runtime serves its streams. That is on this machine and speaks to whoever comes, so a certificate
// would prove nothing; nothing else may be reached by the runtime's word.
func executorFor(address string) (remotecommand.Executor, error) {
	u, err := url.Parse(address)
	if err != nil {
		return nil, err
	}
	ip := net.ParseIP(u.Hostname())
	if u.Scheme != "http" && u.Scheme != "https" || u.Hostname() != "localhost" && !ip.IsLoopback() {
		return nil, fmt.Errorf("it is at %s://%s, which isn't a web address on this machine's loopback", u.Scheme, u.Host)
	}
	transport, upgrader, err := spdy.RoundTripperFor(&restclient.Config{TLSClientConfig: restclient.TLSClientConfig{Insecure: true}})
	if err != nil {
		return nil, err
	}
	return remotecommand.NewSPDYExecutorRejectRedirects(transport, upgrader, "POST", u)
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
