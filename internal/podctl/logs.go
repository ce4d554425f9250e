package podctl

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/spf13/cobra"
	"google.golang.org/protobuf/types/known/timestamppb"

	podexecv1 "github.com/podstream/podstream/proto/podexec/v1"
)

// logsOptions are the flags of logs.
type logsOptions struct {
	pod                  podName
	container            string
	previous, follow     bool
	timestamps           bool
	since                time.Duration
	sinceTime            string
	tailLines, limitSize int64
}

func (t *tool) logsCommand() *cobra.Command {
	var o logsOptions
	var request *podexecv1.ReadLogsRequest
	cmd := &cobra.Command{
		Use:   "logs POD",
		Short: "Print what a container has written",
		Long: `Logs prints the log of a container on this node, byte for byte, as podexecd reads it. The end of a static pod's name, which is the
node's, may be left out.`,
		Example: `  podctl logs web
  podctl logs -f --tail 20 -n kube-system kube-proxy
  podctl logs -c app --previous web           # of the container before the present one`,
		Args: func(cmd *cobra.Command, args []string) error {
			if err := onePod(cmd, args); err != nil {
				return err
			}
			o.pod.set(args[0])
			var err error
			request, err = o.request(t.Clock.Now())
			return err
		},
		RunE: func(cmd *cobra.Command, _ []string) error { return t.runLogs(cmd.Context(), o, request) },
	}
	flags := cmd.Flags()
	o.pod.addNamespaceFlag(cmd)
	flags.StringVarP(&o.container, "container", "c", "", "the `name` of the container; by default the one that the pod names, or its first")
	flags.BoolVarP(&o.follow, "follow", "f", false, "continue until the container ends")
	flags.BoolVarP(&o.previous, "previous", "p", false, "of the container before the present one, which has ended")
	flags.BoolVar(&o.timestamps, "timestamps", false, "begin each line with its time")
	flags.DurationVar(&o.since, "since", 0, "only lines that are newer than this, as 5s, 2m or 3h")
	flags.StringVar(&o.sinceTime, "since-time", "", "only lines since this `time` (RFC 3339)")
	flags.Int64Var(&o.tailLines, "tail", -1, "at most so many of the last lines; -1: all")
	flags.Int64Var(&o.limitSize, "limit-bytes", 0, "at most so many bytes; 0: all")
	return cmd
}

// request returns the request, except for the pod. Its errors are usage errors.
func (o logsOptions) request(now time.Time) (*podexecv1.ReadLogsRequest, error) {
	r := &podexecv1.ReadLogsRequest{Container: o.container, Previous: o.previous, Follow: o.follow, Timestamps: o.timestamps}
	switch {
	case o.since != 0 && o.sinceTime != "":
		return nil, errors.New("--since and --since-time: give one of them")
	case o.since < 0:
		return nil, errors.New("--since: want a time from 0")
	case o.tailLines < -1:
		return nil, errors.New("--tail: want a number from 0, or -1 for all")
	case o.limitSize < 0:
		return nil, errors.New("--limit-bytes: want a number from 0")
	case o.since > 0:
		r.SinceTime = timestamppb.New(now.Add(-o.since))
	case o.sinceTime != "":
		since, err := time.Parse(time.RFC3339, o.sinceTime)
		if err != nil {
			return nil, fmt.Errorf("--since-time: %w", err)
		}
		r.SinceTime = timestamppb.New(since)
	}
	if o.tailLines >= 0 {
		r.TailLines = &o.tailLines
	}
	if o.limitSize > 0 {
		r.LimitBytes = &o.limitSize
	}
	return r, nil
}

func (t *tool) runLogs(ctx context.Context, o logsOptions, request *podexecv1.ReadLogsRequest) error {
	ref, err := t.findObserved(ctx, o.pod)
	if err != nil {
		return err
	}
	request.Ref = ref
	conn, err := t.podexecd.connect(t.userAgent())
	if err != nil {
		return err
	}
	defer conn.Close()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	stream, err := podexecv1.NewPodExecServiceClient(conn).ReadLogs(ctx, request)
	if err != nil {
		return conn.explain(err)
	}
	for {
		m, err := stream.Recv()
		switch {
		case errors.Is(err, io.EOF):
			return nil
		case err != nil && o.follow && ctx.Err() != nil:
			return nil // the user ended it: no failure
		case err != nil:
			return conn.explain(err)
		}
		t.noteDefaulted(m.GetDefaulted(), "\n")
		// As with kubectl, both streams go to standard output.
		if _, err := t.Stdout.Write(m.GetData()); err != nil {
			return fmt.Errorf("print: %w", err)
		}
	}
}
