package podctl

import (
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/spf13/cobra"
	"google.golang.org/grpc"

	podexecv1 "github.com/podstream/podstream/proto/podexec/v1"
)

// execOptions are the flags of exec.
type execOptions struct {
	pod        podName
	container  string
	stdin, tty bool
	command    []string
}

func (t *tool) execCommand() *cobra.Command {
	var o execOptions
	cmd := &cobra.Command{
		Use:   "exec POD -- COMMAND [ARGUMENT...]",
		Short: "Run a command in a container",
		Long: `Exec runs a command in a container on this node, and exits with its exit code. It requires the role of an operator, which
root has. The end of a static pod's name, which is the node's, may be left out.`,
		Example: `  podctl exec web -- date
  podctl exec -it web -- sh
  podctl exec -i -c db db -- psql < dump.sql`,
		Args: func(cmd *cobra.Command, args []string) error {
			switch dash := cmd.ArgsLenAtDash(); {
			case dash < 0:
				return errors.New("want POD -- COMMAND: the command comes after two dashes")
			case dash != 1:
				return fmt.Errorf("want one pod before the dashes; there are %d arguments", dash)
			case len(args) == 1:
				return errors.New("want a command after the dashes")
			}
			o.pod.set(args[0])
			o.command = args[1:]
			return nil
		},
		RunE: func(cmd *cobra.Command, _ []string) error { return t.runExec(cmd.Context(), o) },
	}
	flags := cmd.Flags()
	o.pod.addNamespaceFlag(cmd)
	flags.StringVarP(&o.container, "container", "c", "", "the `name` of the container; by default the one that the pod names, or its first")
	flags.BoolVarP(&o.stdin, "stdin", "i", false, "pass standard input on to the command")
	flags.BoolVarP(&o.tty, "tty", "t", false, "give the command a terminal, if standard input is one")
	return cmd
}

func (t *tool) runExec(ctx context.Context, o execOptions) error {
	ref, conn, err := t.connectPod(ctx, o.pod)
	if err != nil {
		return err
	}
	defer conn.Close()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()

	c := console{stdin: o.stdin, own: t.terminal(o.tty)}
	start := &podexecv1.ExecStart{
		Ref: ref, Container: o.container, Command: o.command, Stdin: o.stdin, Tty: c.own != nil, Size: c.own.size(),
	}
	ctx, release := c.untilHangup(ctx)
	defer release()
	restore, err := c.enter()
	if err != nil {
		return err
	}
	defer restore()
	stream, err := podexecv1.NewPodExecServiceClient(conn).Exec(ctx)
	if err != nil {
		return conn.explain(err)
	}
	s := &sender[podexecv1.ExecRequest]{
		stream: stream,
		stdin: func(p []byte) *podexecv1.ExecRequest {
			return &podexecv1.ExecRequest{Message: &podexecv1.ExecRequest_Stdin{Stdin: p}}
		},
		closed: func() *podexecv1.ExecRequest {
			return &podexecv1.ExecRequest{Message: &podexecv1.ExecRequest_StdinClosed{StdinClosed: true}}
		},
		resize: func(size *podexecv1.TerminalSize) *podexecv1.ExecRequest {
			return &podexecv1.ExecRequest{Message: &podexecv1.ExecRequest_Resize{Resize: size}}
		},
	}
	if err := s.send(&podexecv1.ExecRequest{Message: &podexecv1.ExecRequest_Start{Start: start}}); err != nil {
		return conn.explain(endOf(stream, &podexecv1.ExecResponse{}, err))
	}
	stop := s.pass(c, t.Stdin, start.GetSize())
	// In this order: otherwise stop waits for a size that can't be sent.
	defer func() { cancel(); stop() }()
	code, err := t.printExec(stream, c.lineEnd())
	var unprinted ownError
	switch {
	case errors.As(err, &unprinted):
		return fmt.Errorf("print: %w", unprinted.error)
	case errors.Is(err, io.EOF):
		return fmt.Errorf("%s at %s ended the stream without the command's exit code", conn.daemon.name, &conn.daemon.endpoint)
	case err != nil:
		return conn.explain(err)
	case code != 0:
		return &exitError{code: code}
	}
	return nil
}

// printExec prints the command's output until the command ends.
func (t *tool) printExec(
	stream grpc.BidiStreamingClient[podexecv1.ExecRequest, podexecv1.ExecResponse], lineEnd string,
) (exitCode int, err error) {
	for {
		m, err := stream.Recv()
		if err != nil {
			return 0, err
		}
		switch m := m.GetMessage().(type) {
		case *podexecv1.ExecResponse_Stdout:
			_, err = t.Stdout.Write(m.Stdout)
		case *podexecv1.ExecResponse_Stderr:
			_, err = t.Stderr.Write(m.Stderr)
		case *podexecv1.ExecResponse_Defaulted:
			t.noteDefaulted(m.Defaulted, lineEnd)
		case *podexecv1.ExecResponse_ExitCode:
			return int(m.ExitCode), nil
		}
		if err != nil {
			return 0, ownError{err}
		}
	}
}
