package podctl

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"google.golang.org/protobuf/types/known/timestamppb"
	"k8s.io/apimachinery/pkg/util/duration"

	"github.com/podstream/podstream/internal/podctl/podsummary"
	"github.com/podstream/podstream/internal/podctl/render"
	podconfigv1 "github.com/podstream/podstream/proto/podconfig/v1"
)

func (t *tool) sourcesCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:     "sources",
		Aliases: []string{"source"},
		Short:   "Show podconfigd's sources, and the problems of their manifests",
		Args:    noArguments,
		RunE:    func(cmd *cobra.Command, _ []string) error { return t.runSources(cmd.Context()) },
	}
	t.addListFlags(cmd.Flags())
	cmd.AddCommand(t.sourcesAcceptCommand())
	return cmd
}

func (t *tool) runSources(ctx context.Context) error {
	conn, err := t.podconfigd.connect(t.userAgent())
	if err != nil {
		return err
	}
	defer conn.Close()
	ctx, cancel := t.listContext(ctx)
	defer cancel()

	resp, err := podconfigv1.NewPodConfigServiceClient(conn).ListSources(ctx, &podconfigv1.ListSourcesRequest{})
	if err != nil {
		return conn.explain(err)
	}
	if resp.Sources, err = sorted(t, resp.GetSources(), func(s *podconfigv1.Source) any { return render.Proto{Message: s} }); err != nil {
		return err
	}
	if !t.output.IsTable() {
		return t.documents("source").Print(render.Proto{Message: resp})
	}
	return t.printSources(resp.GetSources())
}

// printSources prints the sources and, if there are any, the findings in a table of their own.
func (t *tool) printSources(sources []*podconfigv1.Source) error {
	if len(sources) == 0 {
		t.note("podconfigd has no sources: give it --pod-manifest-path")
		return nil
	}
	now := t.Clock.Now()
	header := []string{"NAME", "LOCATION", "READY", "PODS", "LAST-READ", "LAST-HEARD", "PROBLEM"}
	// Only artifacts have one. A problem is long, so it stays last.
	hasDigest := slices.ContainsFunc(sources, func(s *podconfigv1.Source) bool { return s.GetDigest() != "" })
	if hasDigest {
		header = slices.Insert(header, 2, "DIGEST")
	}
	overview := t.newTable(header...)
	findings := t.newTable("SEVERITY", "ORIGIN", "FIELD", "MESSAGE")
	found := false
	for _, s := range sources {
		cells := []string{s.GetName(), s.GetLocation(), strconv.FormatBool(s.GetReady()), strconv.Itoa(int(s.GetPodCount())),
			ago(now, s.GetLastReadTime()), heard(now, s), s.GetLastError()}
		if hasDigest {
			cells = slices.Insert(cells, 2, shortID(s.GetDigest(), t.output == render.WideFormat))
		}
		overview.Row(cells...)
		for _, f := range s.GetFindings() {
			found = true
			findings.Row(severityText(f.GetSeverity()), originText(f), f.GetField(), findingText(f))
		}
	}
	if err := overview.Flush(); err != nil || !found {
		return err
	}
	if _, err := fmt.Fprintln(t.Stdout); err != nil {
		return fmt.Errorf("print: %w", err)
	}
	return findings.Flush()
}

// severityText is the severity in one word, or its number if podconfigd is newer than podctl.
func severityText(s podconfigv1.FindingSeverity) string {
	return strings.TrimPrefix(s.String(), "FINDING_SEVERITY_")
}

// originText is the origin, with the number of the document if the finding is about one.
func originText(f *podconfigv1.Finding) string {
	if f.GetDocument() == 0 {
		return f.GetOrigin()
	}
	return fmt.Sprintf("%s:%d", f.GetOrigin(), f.GetDocument())
}

// findingText returns the message, with the pods that still run in spite of it.
func findingText(f *podconfigv1.Finding) string {
	kept := f.GetKeptPods()
	if len(kept) == 0 {
		return f.GetMessage()
	}
	names := make([]string, len(kept))
	for i, ref := range kept {
		names[i] = podsummary.FullName(ref)
	}
	return fmt.Sprintf("%s (kept: %s)", f.GetMessage(), strings.Join(names, ", "))
}

// heard returns how long ago the source was last heard from, by podconfigd's clock, which may be another machine's.
func heard(now time.Time, s *podconfigv1.Source) string {
	if unheard := s.GetUnheardFor(); unheard != nil {
		return duration.HumanDuration(unheard.AsDuration()) + " ago"
	}
	return ago(now, s.GetLastHeardTime())
}

// ago returns how long ago t was, as kubectl does; "never" if it is unset.
func ago(now time.Time, t *timestamppb.Timestamp) string {
	if t == nil {
		return "never"
	}
	return duration.HumanDuration(now.Sub(t.AsTime())) + " ago"
}
