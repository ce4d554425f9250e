package podctl

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/spf13/cobra"
	"google.golang.org/protobuf/types/known/durationpb"

	podconfigv1 "github.com/podstream/podstream/proto/podconfig/v1"
)

func (t *tool) profileCommand() *cobra.Command {
	var duration time.Duration
	cmd := &cobra.Command{
		Use:   "profile [NAME] > FILE",
		Short: "Write a profile of podconfigd, for go tool pprof",
		Long: "Write a profile of podconfigd to standard output, in the format of pprof. NAME is profile (CPU, the default), trace, heap,\n" +
			"allocs, goroutine, threadcreate, block or mutex. It needs the role operator. podexecd has the kubelet's /debug/pprof.",
		Args:      cobra.MaximumNArgs(1),
		ValidArgs: []string{"profile", "trace", "heap", "allocs", "goroutine", "threadcreate", "block", "mutex"},
		RunE: func(cmd *cobra.Command, args []string) error {
			return t.runProfile(cmd.Context(), append(args, "profile")[0], duration)
		},
	}
	cmd.Flags().DurationVar(&duration, "duration", 30*time.Second, "`time` of a CPU profile or trace, at most a minute")
	return cmd
}

func (t *tool) runProfile(ctx context.Context, name string, duration time.Duration) error {
	if isTerminal(t.Stdout) {
		return errors.New("a profile is not for a terminal: write it to a file, with podctl profile > FILE")
	}
	conn, err := t.podconfigd.connect(t.userAgent())
	if err != nil {
		return err
	}
	defer conn.Close()
	stream, err := podconfigv1.NewPodConfigServiceClient(conn).GetProfile(ctx, &podconfigv1.GetProfileRequest{
		Name: name, Duration: durationpb.New(duration),
	})
	for err == nil {
		var part *podconfigv1.GetProfileResponse
		if part, err = stream.Recv(); err != nil {
			break
		}
		if _, err := t.Stdout.Write(part.GetData()); err != nil {
			return fmt.Errorf("write the profile: %w", err)
		}
	}
	if errors.Is(err, io.EOF) {
		return nil
	}
	return conn.explain(err)
}
