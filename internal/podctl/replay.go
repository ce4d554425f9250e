package podctl

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/podstream/podstream/internal/grpcserver"
	"github.com/podstream/podstream/internal/podctl/render"
	"github.com/podstream/podstream/internal/recording"
	podconfigv1 "github.com/podstream/podstream/proto/podconfig/v1"
)

// replayOptions are the arguments and flags of replay.
type replayOptions struct {
	file   string
	listen string
	speed  float64
	once   bool
}

func (t *tool) replayCommand() *cobra.Command {
	var o replayOptions
	cmd := &cobra.Command{
		Use:   "replay FILE --listen unix:///PATH",
		Short: "Serve a recorded stream of pods, as if it were podconfigd",
		Long: `Replay serves the recording FILE on a socket, until Ctrl-C. Each consumer gets the recorded messages at the recorded pace, and
then heartbeats; a consumer that returns with a cursor of the recording resumes after it. The pods are available only in the
recorded format.`,
		Args: func(_ *cobra.Command, args []string) error {
			if err := oneFile(args); err != nil {
				return err
			}
			return o.validate()
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			o.file = args[0]
			return t.runReplay(cmd.Context(), o)
		},
	}
	cmd.Flags().StringVar(&o.listen, "listen", "", "the `socket` to serve on, unix:///PATH")
	cmd.Flags().Float64Var(&o.speed, "speed", 1, "the `factor` by which the replay is faster than the recording; 0 is as fast as the consumer reads")
	cmd.Flags().BoolVar(&o.once, "once", false,
		"end each stream after the last message, and the replay after the first consumer that received all")
	return cmd
}

func (o replayOptions) validate() error {
	if !strings.HasPrefix(o.listen, "unix:///") {
		return errors.New("--listen: want unix:///PATH")
	}
	if !(o.speed >= 0) { // so that NaN is refused too
		return errors.New("--speed: want a number from 0")
	}
	return nil
}

func (t *tool) runReplay(ctx context.Context, o replayOptions) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	cfg := recording.ServerConfig{Path: o.file, Speed: o.speed, Once: o.once, Clock: t.Clock}
	if o.once {
		cfg.Played = cancel
	}
	server, err := recording.NewServer(cfg)
	if err != nil {
		return err
	}
	listeners, err := grpcserver.Listen([]string{o.listen})
	if err != nil {
		return err
	}
	t.noteReplay(o, server.Summary())
	return serveReplay(ctx, server, listeners[0])
}

// noteReplay prints what is served, where, and how to read it.
func (t *tool) noteReplay(o replayOptions, s recording.Summary) {
	format := s.Header.Format()
	word := strings.ToLower(enumWord(format, "POD_FORMAT_", ""))
	t.note("%s: %s in %s over %s, pods as %s, recorded %s from %s", o.file,
		plural(s.Revisions, "revision"), plural(s.Messages, "message"), s.Duration.Round(time.Millisecond),
		word, s.Header.Recorded.Format(time.RFC3339), render.OrDash(s.Header.Endpoint))
	if s.CutOff {
		t.note("%s is cut off; the replay ends with the last whole revision", o.file)
	}
	t.note("serving at %s; connect with", o.listen)
	t.note("  podctl watch --podconfig-endpoint=%s --format=%s", o.listen, word)
	if format == podconfigv1.PodFormat_POD_FORMAT_PROTOBUF {
		t.note("  podexecd --podconfig-endpoint=%s", o.listen)
	}
	t.note("  grpcurl -plaintext -unix -d '%s' %s %s", fmt.Sprintf(`{"format":%q}`, format),
		strings.TrimPrefix(o.listen, "unix://"), podconfigv1.PodConfigService_WatchPodUpdates_FullMethodName[1:])
}
