package podctl

import (
	"cmp"
	"context"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/util/duration"

	"github.com/podstream/podstream/internal/podctl/podsummary"
	"github.com/podstream/podstream/internal/podctl/render"
	podconfigv1 "github.com/podstream/podstream/proto/podconfig/v1"
)

func (t *tool) consumersCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "consumers",
		Short: "Show podconfigd's consumers, how far each is, and the pods that it couldn't apply",
		Long: `Consumers shows the consumers of podconfigd: those of the pods, and those of the objects that the pods refer to. LAG counts
the revisions that podconfigd hasn't sent to a consumer yet, with the age of the oldest. LAST-REPORT is the consumer's last
report: the revision of the pods that it applied or rejected, and the pods that it refused. A source is held for a consumer if
podconfigd is behind it, or if it would lose pods by a move; with -o yaml, heldSources has the reason.`,
		Args: noArguments,
		RunE: func(cmd *cobra.Command, _ []string) error { return t.runConsumers(cmd.Context()) },
	}
	t.addListFlags(cmd.Flags())
	return cmd
}

func (t *tool) runConsumers(ctx context.Context) error {
	conn, err := t.podconfigd.connect(t.userAgent())
	if err != nil {
		return err
	}
	defer conn.Close()
	ctx, cancel := t.listContext(ctx)
	defer cancel()

	resp, err := podconfigv1.NewPodConfigServiceClient(conn).ListConsumers(ctx, &podconfigv1.ListConsumersRequest{})
	if err != nil {
		return conn.explain(err)
	}
	if resp.Consumers, err = sorted(t, resp.GetConsumers(), func(c *podconfigv1.Consumer) any { return render.Proto{Message: c} }); err != nil {
		return err
	}
	if !t.output.IsTable() {
		return t.documents("consumer").Print(render.Proto{Message: resp})
	}
	return t.printConsumers(resp.GetConsumers())
}

func (t *tool) printConsumers(consumers []*podconfigv1.Consumer) error {
	if len(consumers) == 0 {
		t.note("podconfigd has no consumers")
		return nil
	}
	now, wide := t.Clock.Now(), t.output == render.WideFormat
	header := []string{"NAME", "IDENTITY", "WATCHES", "STATE", "MODE", "FORMAT", "REVISION", "LAG", "CONNECTED", "LAST-REPORT"}
	if wide {
		header = append(header, "PEER", "FILTER", "PARKED")
	}
	overview := t.newTable(header...)
	for _, c := range consumers {
		watches, mode := "PODS", enumWord(c.GetMode(), "NOTIFICATION_MODE_", "INCREMENTAL")
		if c.GetObjects() {
			watches, mode = "OBJECTS", ""
		}
		cells := []string{
			c.GetName(), c.GetIdentity(), watches,
			stateText(c), mode,
			enumWord(c.GetFormat(), "POD_FORMAT_", "JSON"),
			revisionText(c.GetCursor()), lagText(now, c), ago(now, c.GetConnectedTime()), reportText(c.GetLastReport(), wide),
		}
		if wide {
			cells = append(cells, c.GetPeer(), podsummary.FilterText(c.GetFilter()), strconv.FormatUint(c.GetParkedCount(), 10))
		}
		overview.Row(cells...)
	}
	return overview.Flush()
}

// stateText returns the state, with the sources that are held for the consumer.
func stateText(c *podconfigv1.Consumer) string {
	text := enumWord(c.GetState(), "CONSUMER_STATE_", "")
	for _, h := range c.GetHeldSources() {
		text += ", " + h.GetName() + " held"
	}
	return text
}

// enumWord returns an enum's value in one word, or its number if podconfigd is newer than podctl. For 0 it returns
// the default's word.
func enumWord[E interface {
	~int32
	fmt.Stringer
}](value E, prefix, unspecified string) string {
	if value == 0 {
		return unspecified
	}
	return strings.TrimPrefix(value.String(), prefix)
}

// revisionText returns the empty text if no whole revision has been sent to the consumer.
func revisionText(c *podconfigv1.Cursor) string {
	if c == nil {
		return ""
	}
	return strconv.FormatUint(c.GetRevision(), 10)
}

// lagText returns the number of revisions that haven't been sent to the consumer, and the age of the oldest.
func lagText(now time.Time, c *podconfigv1.Consumer) string {
	text := strconv.FormatUint(c.GetLagRevisions(), 10)
	if since := c.GetLaggingSince(); since != nil {
		text += fmt.Sprintf(" (%s)", duration.HumanDuration(now.Sub(since.AsTime())))
	}
	return text
}

// reportText returns the consumer's last report, with the first few pods that it refused, or all.
func reportText(r *podconfigv1.ReportAppliedRequest, all bool) string {
	if r == nil {
		return ""
	}
	const some = 2
	text := fmt.Sprintf("%s %d", enumWord(r.GetOutcome(), "APPLY_OUTCOME_", "UNSPECIFIED"), r.GetCursor().GetRevision())
	refused := r.GetErrors()
	if len(refused) == 0 {
		return text
	}
	var pods []string
	for i, e := range refused {
		if i == some && !all {
			pods = append(pods, "…")
			break
		}
		pods = append(pods, fmt.Sprintf("%s (%s)", podsummary.FullName(e.GetRef()), cmp.Or(e.GetReason(), e.GetMessage(), "no reason given")))
	}
	return fmt.Sprintf("%s, %d refused: %s", text, len(refused), strings.Join(pods, ", "))
}
