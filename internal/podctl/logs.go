package podctl

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/spf13/cobra"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/podstream/podstream/internal/podctl/render"
	podexecv1 "github.com/podstream/podstream/proto/podexec/v1"
)

// logsOptions are the flags of logs.
type logsOptions struct {
	pod                  podName
	selector             labelSelector
	container            string
	allContainers        bool
	prefix, raw          bool
	maxFollowed          int
	previous, follow     bool
	timestamps           bool
	since                time.Duration
	sinceTime            string
	tailLines, limitSize int64
}

// tailOfMany is --tail with a selector, as kubectl's.
const tailOfMany = 10

func (t *tool) logsCommand() *cobra.Command {
	var o logsOptions
	var request *podexecv1.ReadLogsRequest
	cmd := &cobra.Command{
		Use:   "logs (POD | -l SELECTOR)",
		Short: "Print what containers have written",
		Long: `Logs prints the log of a container on this node, as podexecd reads it. The end of a static pod's name, which is the node's, may be
left out. With --all-containers or --selector it prints the logs of several: in the order of their times, or, with --follow, as the
lines come. Lines of more than 64 KiB are then split.

At a terminal, control characters and invisible characters are escaped, but for line ends, tabs and colours: a container can't act on
your terminal by what it writes. With --raw, and to a file or a pipe, each byte is printed as it is.`,
		Example: `  podctl logs web
  podctl logs -f --tail 20 -n kube-system kube-proxy
  podctl logs -c app --previous web           # of the container before the present one
  podctl logs -f --all-containers --prefix -l app=web`,
		Args: func(cmd *cobra.Command, args []string) error {
			if err := podsOrSelector(cmd, args, 1, o.selector); err != nil {
				return err
			}
			if len(args) == 1 {
				o.pod.set(args[0])
			}
			if o.selector != "" && !cmd.Flags().Changed("tail") {
				o.tailLines = tailOfMany
			}
			var err error
			request, err = o.request(t.Clock.Now())
			return err
		},
		RunE: func(cmd *cobra.Command, _ []string) error { return t.runLogs(cmd.Context(), o, request) },
	}
	flags := cmd.Flags()
	o.pod.addNamespaceFlag(cmd)
	o.selector.addFlag(flags)
	flags.StringVarP(&o.container, "container", "c", "", "the `name` of the container; by default the one that the pod names, or its first")
	flags.BoolVar(&o.allContainers, "all-containers", false, "of all containers of the pod, init containers included")
	flags.BoolVar(&o.prefix, "prefix", false, "begin each line with the pod and the container")
	flags.BoolVarP(&o.follow, "follow", "f", false, "continue until the container ends")
	flags.IntVar(&o.maxFollowed, "max-log-requests", 5, "with --follow: the maximum `number` of logs")
	flags.BoolVarP(&o.previous, "previous", "p", false, "of the container before the present one, which has ended")
	flags.BoolVar(&o.timestamps, "timestamps", false, "begin each line with its time")
	flags.DurationVar(&o.since, "since", 0, "only lines that are newer than this, as 5s, 2m or 3h")
	flags.StringVar(&o.sinceTime, "since-time", "", "only lines since this `time` (RFC 3339)")
	flags.Int64Var(&o.tailLines, "tail", -1, "at most so many of the last lines of each log; -1: all, or 10 with --selector")
	flags.Int64Var(&o.limitSize, "limit-bytes", 0, "at most so many bytes of each log; 0: all")
	flags.BoolVar(&o.raw, "raw", false, "at a terminal: print control characters as they are")
	return cmd
}

// request returns the request, except for the pod. Its errors are usage errors.
func (o logsOptions) request(now time.Time) (*podexecv1.ReadLogsRequest, error) {
	r := &podexecv1.ReadLogsRequest{Container: o.container, Previous: o.previous, Follow: o.follow, Timestamps: o.timestamps}
	switch {
	case o.container != "" && o.allContainers:
		return nil, errors.New("--container and --all-containers: give one of them")
	case o.maxFollowed < 1:
		return nil, errors.New("--max-log-requests: want a number from 1")
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

// runLogs prints one log as it is, or several by lines.
func (t *tool) runLogs(ctx context.Context, o logsOptions, request *podexecv1.ReadLogsRequest) error {
	logs, err := t.logsOf(ctx, o)
	if err != nil {
		return err
	}
	conn, err := t.podexecd.connect(t.userAgent())
	if err != nil {
		return err
	}
	defer conn.Close()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	out, flush := t.Stdout, func() error { return nil }
	if !o.raw && isTerminal(t.Stdout) {
		text := &render.Text{Out: t.Stdout}
		out, flush = text, text.Flush
	}
	if len(logs) == 1 && !o.prefix {
		request.Ref, request.Container = logs[0].ref, logs[0].container
		err = t.copyLog(ctx, conn, request, out)
	} else {
		err = t.mergeLogs(ctx, cancel, conn, logs, mergeOptions{logsOptions: o, request: request, out: out})
	}
	return errors.Join(err, flush())
}

// copyLog prints one log.
func (t *tool) copyLog(ctx context.Context, conn *connection, request *podexecv1.ReadLogsRequest, out io.Writer) error {
	stream, err := podexecv1.NewPodExecServiceClient(conn).ReadLogs(ctx, request)
	if err != nil {
		return conn.explain(err)
	}
	for {
		m, err := stream.Recv()
		switch {
		case errors.Is(err, io.EOF):
			return nil
		case err != nil && request.GetFollow() && ctx.Err() != nil:
			return nil //nolint:nilerr // The user has ended it: that is no failure.
		case err != nil:
			return conn.explain(err)
		}
		t.noteDefaulted(m.GetDefaulted(), "\n")
		// As with kubectl, both streams go to standard output.
		if _, err := out.Write(m.GetData()); err != nil {
			return fmt.Errorf("print: %w", err)
		}
	}
}
