package podctl

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"google.golang.org/protobuf/types/known/timestamppb"
	"k8s.io/apimachinery/pkg/util/duration"

	podconfigv1 "github.com/podstream/podstream/proto/podconfig/v1"
)

func (t *tool) sourcesCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "sources",
		Short: "Show podconfigd's sources, and what is wrong with their manifests",
		Args:  cobra.NoArgs,
		RunE:  func(cmd *cobra.Command, _ []string) error { return t.runSources(cmd.Context()) },
	}
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
	if !t.output.isTable() {
		return (&documents{out: t.Stdout, output: t.output}).print(protoValue{resp})
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
	overview := newTable(t.Stdout, "NAME", "LOCATION", "READY", "PODS", "LAST-READ", "PROBLEM")
	findings := newTable(t.Stdout, "SEVERITY", "ORIGIN", "FIELD", "MESSAGE")
	found := false
	for _, s := range sources {
		overview.row(s.GetName(), s.GetLocation(), strconv.FormatBool(s.GetReady()), strconv.Itoa(int(s.GetPodCount())),
			ago(now, s.GetLastReadTime()), s.GetLastError())
		for _, f := range s.GetFindings() {
			found = true
			findings.row(severityText(f.GetSeverity()), originText(f), f.GetField(), findingText(f))
		}
	}
	if err := overview.flush(); err != nil || !found {
		return err
	}
	if _, err := fmt.Fprintln(t.Stdout); err != nil {
		return fmt.Errorf("print: %w", err)
	}
	return findings.flush()
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

// findingText is the message, with what still runs in spite of it.
func findingText(f *podconfigv1.Finding) string {
	kept := f.GetKeptPods()
	if len(kept) == 0 {
		return f.GetMessage()
	}
	names := make([]string, len(kept))
	for i, ref := range kept {
		names[i] = fullName(ref)
	}
	return fmt.Sprintf("%s (kept: %s)", f.GetMessage(), strings.Join(names, ", "))
}

// ago says how long ago t was, as kubectl does; "never" if it is unset.
func ago(now time.Time, t *timestamppb.Timestamp) string {
	if t == nil {
		return "never"
	}
	return duration.HumanDuration(now.Sub(t.AsTime())) + " ago"
}

// fullName is a pod's namespace/name.
func fullName(ref *podconfigv1.PodRef) string { return ref.GetNamespace() + "/" + ref.GetName() }
