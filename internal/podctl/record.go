package podctl

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"time"

	"github.com/spf13/cobra"
	"google.golang.org/grpc"

	"github.com/podstream/podstream/client/stream"
	"github.com/podstream/podstream/internal/recording"
	podconfigv1 "github.com/podstream/podstream/proto/podconfig/v1"
)

// recordOptions are the arguments and flags of record.
type recordOptions struct {
	file      string // "-": stdout
	format    podconfigv1.PodFormat
	mode      podconfigv1.NotificationMode
	duration  time.Duration // zero: until Ctrl-C
	force     bool
	heartbeat heartbeatOptions
}

func (t *tool) recordCommand() *cobra.Command {
	o := recordOptions{
		format: podconfigv1.PodFormat_POD_FORMAT_PROTOBUF,
		mode:   podconfigv1.NotificationMode_NOTIFICATION_MODE_INCREMENTAL,
	}
	cmd := &cobra.Command{
		Use:   "record FILE",
		Short: "Write the stream of pods to a file, for podctl replay",
		Long: `Record subscribes to podconfigd and writes all messages to FILE, until Ctrl-C, the end of --duration, or the end of the
stream. FILE is compressed if its name ends in ".gz", and "-" is standard output. The pods are recorded as protobuf, which
podexecd requests, unless --format says otherwise.

Pods may have secrets, for instance in their environment and arguments, and the recording has whole pods: only its owner may
read FILE. Check its content before you share it, for instance with a bug report, or record with --format reference: then it has
names, UIDs and digests instead of pods. (A short secret may still be guessed from a digest.)`,
		Example: `  podctl record stream.jsonl.gz
  podctl record --format reference --duration 1m report.jsonl   # to share
  podctl replay stream.jsonl.gz --listen unix:///tmp/replay.sock`,
		Args: func(_ *cobra.Command, args []string) error {
			if err := oneFile(args); err != nil {
				return err
			}
			return o.heartbeat.validate()
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			o.file = args[0]
			return t.runRecord(cmd.Context(), o)
		},
	}
	cmd.Flags().Var(enumFlag(&o.format, "POD_FORMAT_", ""), "format", "the `encoding` of the pods: json, protobuf or reference")
	addModeFlag(cmd.Flags(), &o.mode)
	cmd.Flags().DurationVar(&o.duration, "duration", 0, "how long to record; 0 records until Ctrl-C")
	cmd.Flags().BoolVar(&o.force, "force", false, "replace FILE, if it is a regular file")
	o.heartbeat.addFlag(cmd.Flags())
	return cmd
}

// runRecord creates the file with the first message, so that a podconfigd that can't be reached doesn't replace an
// earlier recording.
func (t *tool) runRecord(ctx context.Context, o recordOptions) error {
	if err := o.checkFile(); err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	if o.duration > 0 {
		// podconfigd would see a deadline too, and its error would come first and look like podconfigd's failure.
		defer time.AfterFunc(o.duration, cancel).Stop()
	}
	conn, err := t.podconfigd.connect(t.userAgent())
	if err != nil {
		return err
	}
	defer conn.Close()

	r := &recorder{tool: t, options: o, header: recording.Header{
		Recorded: t.Clock.Now().UTC(), Endpoint: t.podconfigd.endpoint.String(), Podctl: t.Version,
		Request: &podconfigv1.WatchPodUpdatesRequest{Consumer: t.consumerName("podctl-record"), Mode: o.mode, Format: o.format},
	}}
	o.heartbeat.ask(r.header.Request)
	err = r.follow(ctx, podconfigv1.NewPodConfigServiceClient(conn))
	var own *recordError
	switch {
	case errors.As(err, &own):
		err = own.err
	case ctx.Err() != nil:
		err = nil // the user ended it
	case errors.Is(err, stream.ErrSilent):
		err = fmt.Errorf("%s at %s: %w", conn.daemon.name, &conn.daemon.endpoint, err)
	case errors.Is(err, io.EOF):
		err = fmt.Errorf("%s at %s ended the stream", conn.daemon.name, &conn.daemon.endpoint)
	default:
		err = conn.explain(err)
	}
	return r.finish(err)
}

// checkFile reports an existing file early; Create refuses one that is made later.
func (o recordOptions) checkFile() error {
	if o.file == "-" {
		return nil
	}
	err := recording.FileConfig{Path: o.file, Overwrite: o.force}.Check()
	if errors.Is(err, fs.ErrExist) {
		return fmt.Errorf("%s exists: --force overwrites it", o.file)
	}
	return err
}

// recorder writes one stream.
type recorder struct {
	tool    *tool
	options recordOptions
	header  recording.Header
	out     *recording.Writer // nil before the first message
}

// recordError is a failure on podctl's side of the stream.
type recordError struct{ err error }

func (e *recordError) Error() string { return e.err.Error() }

func (e *recordError) Unwrap() error { return e.err }

// follow writes the messages until the stream ends, or podconfigd is silent; its error is never nil.
func (r *recorder) follow(ctx context.Context, client podconfigv1.PodConfigServiceClient) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil) // ends the stream after a write error
	messages, err := client.WatchPodUpdates(ctx, r.header.Request)
	if err != nil {
		return err
	}
	for {
		msg, err := r.receive(ctx, cancel, messages)
		if err != nil {
			return err
		}
		if err := r.write(msg); err != nil {
			return &recordError{err}
		}
	}
}

// receive waits for a message, within the limit of podconfigd's silence.
func (r *recorder) receive(
	ctx context.Context, cancel context.CancelCauseFunc, messages grpc.ServerStreamingClient[podconfigv1.WatchPodUpdatesResponse],
) (*podconfigv1.WatchPodUpdatesResponse, error) {
	if patience := r.tool.patience(r.options.heartbeat); patience > 0 {
		defer time.AfterFunc(patience, func() { cancel(fmt.Errorf("%w for %v", stream.ErrSilent, patience)) }).Stop()
	}
	msg, err := messages.Recv()
	if cause := context.Cause(ctx); err != nil && errors.Is(cause, stream.ErrSilent) {
		return nil, cause
	}
	return msg, err
}

func (r *recorder) write(msg *podconfigv1.WatchPodUpdatesResponse) error {
	if r.out == nil {
		out, err := r.create()
		if err != nil {
			return err
		}
		r.out = out
	}
	return r.out.Write(r.tool.Clock.Now().Sub(r.header.Recorded), msg)
}

func (r *recorder) create() (*recording.Writer, error) {
	if r.options.file == "-" {
		return recording.NewWriter(recording.WriterConfig{Out: r.tool.Stdout, Header: r.header})
	}
	return recording.Create(recording.FileConfig{Path: r.options.file, Overwrite: r.options.force, Header: r.header})
}

// finish closes the recording and prints a summary. The recording up to a failure is valid.
func (r *recorder) finish(err error) error {
	if r.out == nil {
		if err == nil {
			err = errors.New("nothing was recorded: podconfigd sent nothing")
		}
		return err
	}
	err = errors.Join(err, r.out.Close())
	stats, name := r.out.Stats(), r.options.file
	if name == "-" {
		name = "standard output"
	}
	r.tool.note("recorded %s in %s, %s, to %s",
		plural(stats.Revisions, "revision"), plural(stats.Messages, "message"), plural(int(stats.Bytes), "byte"), name)
	return err
}

func plural(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return fmt.Sprintf("%d %ss", n, noun)
}
