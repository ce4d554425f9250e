package podctl

import (
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/spf13/cobra"
	"google.golang.org/grpc"

	"github.com/podstream/podstream/internal/podctl/render"
	podexecv1 "github.com/podstream/podstream/proto/podexec/v1"
)

// attachOptions are the flags of attach.
type attachOptions struct {
	pod               podName
	container         string
	stdin, tty, quiet bool
}

func (t *tool) attachCommand() *cobra.Command {
	var o attachOptions
	cmd := &cobra.Command{
		Use:   "attach POD",
		Short: "Connect to the streams of a container's main process",
		Long: `Attach shows what the main process of a container writes from now on, and with -i passes standard input on to it, if the
container has one (stdin: true). It ends with the process. Ctrl-C ends attach and not the container, except with -it, where each key is the
process's, and a terminal that is closed detaches. The end of standard input ends the process's too, if the container has stdinOnce and no
terminal, and so does a client that goes away; otherwise it ends attach. It requires the role of an operator, which root has.`,
		Example: `  podctl attach web
  podctl attach -it shell
  echo reload | podctl attach -i -c app web`,
		Args: func(cmd *cobra.Command, args []string) error {
			if err := onePod(cmd, args); err != nil {
				return err
			}
			o.pod.set(args[0])
			return nil
		},
		RunE: func(cmd *cobra.Command, _ []string) error { return t.runAttach(cmd.Context(), o) },
	}
	flags := cmd.Flags()
	o.pod.addNamespaceFlag(cmd)
	flags.StringVarP(&o.container, "container", "c", "", "the `name` of the container; by default the one that the pod names, or its first")
	flags.BoolVarP(&o.stdin, "stdin", "i", false, "pass standard input on to the container")
	flags.BoolVarP(&o.tty, "tty", "t", false, "use the container's terminal, if standard input is one too")
	flags.BoolVarP(&o.quiet, "quiet", "q", false, "print only what the process writes")
	return cmd
}

type attachClient = grpc.BidiStreamingClient[podexecv1.AttachRequest, podexecv1.AttachResponse]

func (t *tool) runAttach(ctx context.Context, o attachOptions) error {
	ref, conn, err := t.connectPod(ctx, o.pod)
	if err != nil {
		return err
	}
	defer conn.Close()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	c := console{stdin: o.stdin, own: t.terminal(o.tty)}
	ctx, release := c.untilHangup(ctx)
	defer release()

	stream, err := podexecv1.NewPodExecServiceClient(conn).Attach(ctx)
	if err != nil {
		return conn.explain(err)
	}
	s := attachSender(stream)
	// As kubectl does: a program that draws on its whole terminal draws again when the size changes.
	first := c.own.size()
	if first != nil {
		first.Width++
		first.Height++
	}
	start := &podexecv1.AttachStart{Ref: ref, Container: o.container, Stdin: o.stdin, Size: first}
	if err := s.send(&podexecv1.AttachRequest{Message: &podexecv1.AttachRequest_Start{Start: start}}); err != nil {
		return conn.explain(endOf(stream, &podexecv1.AttachResponse{}, err))
	}
	opened, err := t.attached(stream)
	switch {
	case err != nil && ctx.Err() != nil:
		return nil // The user ended it: no failure.
	case err != nil:
		return conn.explain(err)
	}
	c = t.consoleOf(c, o, opened)
	if !o.quiet {
		_, _ = io.WriteString(t.Stderr, "If you don't see a command prompt, try pressing enter.\n")
	}
	restore, err := c.enter()
	if err != nil {
		return err
	}
	stop := s.pass(c, t.Stdin, first)
	err = t.printAttached(stream)
	ended := ctx.Err() != nil
	cancel()
	stop()
	restore()
	var unprinted ownError
	switch {
	case errors.As(err, &unprinted):
		return fmt.Errorf("print: %w", unprinted.error)
	case ended:
		return nil
	case !errors.Is(err, io.EOF):
		return conn.explain(err)
	}
	if c.raw() && opened.GetRestartsAlways() && !o.quiet {
		fmt.Fprintf(t.Stdout, "Session ended, resume using '%s' command when the pod is running\n",
			render.Escape(fmt.Sprintf("podctl attach -n %s %s -c %s -i -t", ref.GetNamespace(), ref.GetName(), opened.GetContainer())))
	}
	return nil
}

func attachSender(stream attachClient) *sender[podexecv1.AttachRequest] {
	return &sender[podexecv1.AttachRequest]{
		stream: stream,
		stdin: func(p []byte) *podexecv1.AttachRequest {
			return &podexecv1.AttachRequest{Message: &podexecv1.AttachRequest_Stdin{Stdin: p}}
		},
		closed: func() *podexecv1.AttachRequest {
			return &podexecv1.AttachRequest{Message: &podexecv1.AttachRequest_StdinClosed{StdinClosed: true}}
		},
		resize: func(size *podexecv1.TerminalSize) *podexecv1.AttachRequest {
			return &podexecv1.AttachRequest{Message: &podexecv1.AttachRequest_Resize{Resize: size}}
		},
	}
}

// attached waits until podctl is attached.
func (t *tool) attached(stream attachClient) (*podexecv1.AttachOpened, error) {
	for {
		m, err := stream.Recv()
		if err != nil {
			return nil, err
		}
		t.noteDefaulted(m.GetDefaulted(), "\n")
		if opened := m.GetOpened(); opened != nil {
			return opened, nil
		}
	}
}

// consoleOf returns the console without what the container lacks.
func (t *tool) consoleOf(c console, o attachOptions, opened *podexecv1.AttachOpened) console {
	if o.stdin && !opened.GetStdin() {
		t.note("container %s has no standard input (stdin: true in its spec): it gets none", opened.GetContainer())
	}
	if c.own != nil && !opened.GetTty() {
		t.note("Unable to use a TTY - container %s did not allocate one", opened.GetContainer())
		c.own = nil
	}
	c.stdin = opened.GetStdin()
	return c
}

// printAttached prints what the process writes, until the stream ends.
func (t *tool) printAttached(stream attachClient) error {
	for {
		m, err := stream.Recv()
		if err != nil {
			return err
		}
		switch m := m.GetMessage().(type) {
		case *podexecv1.AttachResponse_Stdout:
			_, err = t.Stdout.Write(m.Stdout)
		case *podexecv1.AttachResponse_Stderr:
			_, err = t.Stderr.Write(m.Stderr)
		}
		if err != nil {
			return ownError{err}
		}
	}
}
