package podctl

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/podstream/podstream/internal/podctl/render"
	podconfigv1 "github.com/podstream/podstream/proto/podconfig/v1"
)

func (t *tool) sourcesAcceptCommand() *cobra.Command {
	behind := false
	cmd := &cobra.Command{
		Use:   "accept SOURCE",
		Short: "Accept what podconfigd refuses of a source: another cluster, an older artifact, or what it has for held consumers",
		Long: "Accept what podconfigd refuses of a source now: that the API server is of another cluster, that an artifact is older\n" +
			"than the newest one, or that the consumers for which the source is held get what this podconfigd has. `podctl sources` and `podctl consumers` show what is refused.\n" +
			"Pods of these consumers that this podconfigd doesn't have are removed. A consumer that this podconfigd is only behind is\n" +
			"released by itself once it has caught up; only --behind takes such a consumer back.",
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			return t.runSourcesAccept(cmd.Context(), args[0], behind)
		},
	}
	cmd.Flags().BoolVar(&behind, "behind", false,
		"Also release consumers that this podconfigd is only behind. They go back: deleted pods may run again, and newer ones are removed.")
	return cmd
}

func (t *tool) runSourcesAccept(ctx context.Context, source string, behind bool) error {
	conn, err := t.podconfigd.connect(t.userAgent())
	if err != nil {
		return err
	}
	defer conn.Close()
	ctx, cancel := t.listContext(ctx)
	defer cancel()
	resp, err := podconfigv1.NewPodConfigServiceClient(conn).AcceptSource(ctx, &podconfigv1.AcceptSourceRequest{Source: source, Behind: behind})
	if err != nil {
		return conn.explain(err)
	}
	if !t.output.IsTable() {
		return t.documents("").Print(render.Proto{Message: resp})
	}
	for _, line := range resp.GetAccepted() {
		if _, err := fmt.Fprintf(t.Stdout, "accepted: %s\n", render.Escape(line)); err != nil {
			return fmt.Errorf("print: %w", err)
		}
	}
	return nil
}
