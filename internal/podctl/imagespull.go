package podctl

import (
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/spf13/cobra"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/podstream/podstream/internal/podctl/render"
	podexecv1 "github.com/podstream/podstream/proto/podexec/v1"
)

func (t *tool) pullCommand() *cobra.Command {
	var quiet bool
	cmd := &cobra.Command{
		Use:   "pull IMAGE",
		Short: "Pull an image onto this node",
		Long: `Pull has podexecd pull an image, also if the node has it, and prints the image's ID. podexecd uses the node's credentials and
credential providers, not the pull secrets of pods, and its limits of pulls apply. Ctrl-C cancels the pull, unless a pod
waits for it too.

The progress goes to standard error: a bar on a terminal, and otherwise a line a second.`,
		Example: "  podctl images pull registry.example/app:1",
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) != 1 {
				return fmt.Errorf("want one image; there are %d arguments", len(args))
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error { return t.runPull(cmd.Context(), args[0], quiet) },
	}
	cmd.Flags().BoolVarP(&quiet, "quiet", "q", false, "print no progress")
	return cmd
}

// runPull pulls an image. It has no time limit.
func (t *tool) runPull(ctx context.Context, image string, quiet bool) error {
	conn, err := t.podexecd.connect(t.userAgent())
	if err != nil {
		return err
	}
	defer conn.Close()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	stream, err := podexecv1.NewPodExecServiceClient(conn).PullImage(ctx, &podexecv1.PullImageRequest{Image: image})
	if err != nil {
		return conn.explain(err)
	}
	progress := t.newPullProgress(image)
	if quiet {
		progress = nil
	}
	for {
		m, err := stream.Recv()
		if err != nil {
			progress.end()
		}
		switch {
		case errors.Is(err, io.EOF):
			return fmt.Errorf("%s at %s ended the pull without a result", conn.daemon.name, &conn.daemon.endpoint)
		case status.Code(err) == codes.NotFound, status.Code(err) == codes.FailedPrecondition, status.Code(err) == codes.InvalidArgument:
			// It is the runtime's or the registry's, and has the image's name.
			return &callError{text: status.Convert(err).Message(), err: err}
		case err != nil:
			return conn.explain(err)
		}
		if done := m.GetPulled(); done != nil {
			progress.end()
			return t.printPulled(done)
		}
		progress.show(m.GetPull())
	}
}

func (t *tool) printPulled(image *podexecv1.PulledImage) error {
	if !t.output.IsTable() {
		return t.documents("").Print(render.Proto{Message: image})
	}
	if _, err := fmt.Fprintln(t.Stdout, render.Escape(image.GetId())); err != nil {
		return fmt.Errorf("print: %w", err)
	}
	return nil
}
