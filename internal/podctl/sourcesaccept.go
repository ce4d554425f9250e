package podctl

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/podstream/podstream/internal/podctl/render"
	podconfigv1 "github.com/podstream/podstream/proto/podconfig/v1"
)

func (t *tool) sourcesAcceptCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "accept SOURCE",
		Short: "Accept what podconfigd refuses of a source: another cluster, or that moved consumers lose most of their pods",
		Long: "Accept what podconfigd refuses of a source now: that the API server is of another cluster, or that consumers that\n" +
			"come from another podconfigd lose most of their pods of the source. `podctl sources` and `podctl consumers` show what\n" +
			"is refused. Pods that the consumers then no longer have are removed.",
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error { return t.runSourcesAccept(cmd.Context(), args[0]) },
	}
}

func (t *tool) runSourcesAccept(ctx context.Context, source string) error {
	conn, err := t.podconfigd.connect(t.userAgent())
	if err != nil {
		return err
	}
	defer conn.Close()
	ctx, cancel := t.listContext(ctx)
	defer cancel()
	resp, err := podconfigv1.NewPodConfigServiceClient(conn).AcceptSource(ctx, &podconfigv1.AcceptSourceRequest{Source: source})
	if err != nil {
		return conn.explain(err)
	}
	if !t.output.IsTable() {
		return (&render.Documents{Out: t.Stdout, Format: t.output}).Print(render.Proto{Message: resp})
	}
	for _, line := range resp.GetAccepted() {
		if _, err := fmt.Fprintf(t.Stdout, "accepted: %s\n", render.Escape(line)); err != nil {
			return fmt.Errorf("print: %w", err)
		}
	}
	return nil
}
