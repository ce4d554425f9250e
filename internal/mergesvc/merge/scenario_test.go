package merge_test

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/cockroachdb/datadriven"

	"github.com/podstream/podstream/internal/manifest"
	"github.com/podstream/podstream/internal/mergesvc/history"
	"github.com/podstream/podstream/internal/mergesvc/merge"
	"github.com/podstream/podstream/internal/mergesvc/mergetest"
	"github.com/podstream/podstream/internal/mergesvc/revision"
)

// TestScenarios runs the files in testdata/incremental. Their commands:
//
//	set source=NAME [fresh] [err=(WHY)]   merges a set in mergetest's notation and prints the revision, op by op. A line that
//	                                      is as it was in the set before keeps its pointer, unless fresh is given.
//	configure                             configures the sources of the lines, NAME [LOCATION], and prints the revision
//	restart                               restarts with the sources of the lines, and with the stored state
//	pods                                  prints the pods of a consumer that applied all ops
//	sources [locations]                   prints Merger.Sources
//
// At first the sources file, http and api are configured, in this order. The nth set is read in second n.
func TestScenarios(t *testing.T) {
	datadriven.Walk(t, "testdata/incremental", func(t *testing.T, path string) {
		s := newScenario()
		datadriven.RunTest(t, path, func(t *testing.T, d *datadriven.TestData) string {
			switch d.Cmd {
			case "set":
				return s.set(t, d)
			case "configure":
				return s.configure(t, d)
			case "restart":
				return s.restart(d)
			case "pods":
				return s.printPods()
			case "sources":
				return s.printSources(d.HasArg("locations"))
			default:
				d.Fatalf(t, "the command %q isn't known", d.Cmd)
				return ""
			}
		})
	})
}

type scenario struct {
	merger *merge.Merger
	second int64
	// lines are the origins of each source's last set, by line.
	lines map[string]map[string]*manifest.Origin
	// consumer is a consumer that has applied all ops.
	consumer *mergetest.Consumer
	stored   *memory
}

func newScenario() *scenario {
	return &scenario{
		merger: merge.New([]merge.Source{
			{Name: "file", Location: "/etc/manifests"}, {Name: "http", Location: "http://x/"}, {Name: "api"},
		}, merge.Stored{}),
		lines: map[string]map[string]*manifest.Origin{}, consumer: mergetest.At(&history.State{}), stored: newMemory(),
	}
}

// take formats a revision.
func (s *scenario) take(t *testing.T, d *datadriven.TestData, rev *revision.Revision) string {
	if rev == nil {
		return "silence\n"
	}
	if err := s.consumer.Apply(rev.Changes); err != nil {
		d.Fatalf(t, "a consumer that applied all revisions can't apply %d: %v", rev.Number, err)
	}
	s.stored.take(rev)
	return printRevision(rev)
}

func (s *scenario) configure(t *testing.T, d *datadriven.TestData) string {
	return s.take(t, d, s.merger.Configure(sources(d)))
}

func (s *scenario) restart(d *datadriven.TestData) string {
	s.merger = merge.New(sources(d), s.stored.stored())
	s.lines = map[string]map[string]*manifest.Origin{}
	return ""
}

func sources(d *datadriven.TestData) []merge.Source {
	var out []merge.Source
	for _, line := range strings.Split(d.Input, "\n") {
		if name, location, _ := strings.Cut(line, " "); name != "" {
			out = append(out, merge.Source{Name: name, Location: location})
		}
	}
	return out
}

func (s *scenario) set(t *testing.T, d *datadriven.TestData) string {
	var source, why string
	d.ScanArgs(t, "source", &source)
	d.MaybeScanArgs(t, "err", &why)
	s.second++
	set := manifest.Set{Source: source, ReadTime: time.Unix(s.second, 0)}
	if why != "" {
		set.Err = errors.New(why)
	} else {
		set.Origins = s.origins(t, d, source)
	}
	return s.take(t, d, s.merger.Apply(set))
}

func (s *scenario) origins(t *testing.T, d *datadriven.TestData, source string) []*manifest.Origin {
	next := map[string]*manifest.Origin{}
	var out []*manifest.Origin
	for _, line := range strings.Split(d.Input, "\n") {
		if line == "" {
			continue
		}
		o := s.lines[source][line]
		if o == nil || d.HasArg("fresh") {
			parsed, err := mergetest.Origins(line)
			if err != nil {
				d.Fatalf(t, "%v", err)
			}
			o = parsed[0]
		}
		next[line], out = o, append(out, o)
	}
	s.lines[source] = next
	return out
}

func printRevision(rev *revision.Revision) string {
	var b strings.Builder
	if rev.Sources != nil {
		fmt.Fprintf(&b, "revision %d: the sources are %v", rev.Number, rev.Sources)
	} else {
		fmt.Fprintf(&b, "revision %d by %s, observed at %ds", rev.Number, rev.Source, rev.Observed.Unix())
	}
	if len(rev.Dropped) > 0 {
		fmt.Fprintf(&b, ", dropped are %v", rev.Dropped)
	}
	if rev.BecameReady {
		b.WriteString(", became ready")
	}
	b.WriteString("\n")
	for _, c := range rev.Changes {
		fmt.Fprintf(&b, "  %s %s:", c.Op, c.Source)
		for _, p := range c.Pods {
			fmt.Fprintf(&b, " %s(%s)", p, p.UID())
		}
		if len(c.Pods) == 0 {
			b.WriteString(" -")
		}
		b.WriteString("\n")
	}
	return b.String()
}

func (s *scenario) printPods() string {
	var b strings.Builder
	for _, uid := range slices.Sorted(maps.Keys(s.consumer.Pods)) {
		p := s.consumer.Pods[uid]
		fmt.Fprintf(&b, "%s(%s) image=%s phase=%s created=%d spec=%d status=%d\n", p, uid,
			p.Object.Spec.Containers[0].Image, p.Object.Status.Phase, p.Created, p.SpecChanged, p.StatusChanged)
		for _, k := range slices.Sorted(maps.Keys(p.Object.Annotations)) {
			fmt.Fprintf(&b, "  %s=%s\n", k, p.Object.Annotations[k])
		}
	}
	if len(s.consumer.Pods) == 0 {
		return "none\n"
	}
	return b.String()
}

func (s *scenario) printSources(locations bool) string {
	var b strings.Builder
	severities := map[manifest.Severity]string{
		manifest.Warning: "warning", manifest.Error: "error", manifest.Conflict: "conflict", manifest.Ignored: "ignored",
	}
	for _, src := range s.merger.Sources() {
		b.WriteString(src.Name)
		if locations {
			fmt.Fprintf(&b, " at %q", src.Location)
		}
		fmt.Fprintf(&b, " pods=%d ready=%v", src.Pods, src.Ready)
		if src.Ready {
			fmt.Fprintf(&b, " since revision %d", src.ReadyRevision)
		}
		if !src.LastRead.IsZero() {
			fmt.Fprintf(&b, " read at %ds", src.LastRead.Unix())
		}
		if src.LastErr != nil {
			fmt.Fprintf(&b, " failed: %v", src.LastErr)
		}
		b.WriteString("\n")
		for _, f := range src.Findings {
			fmt.Fprintf(&b, "  %s in %s document %d %s: %s", severities[f.Severity], f.Origin, f.Document, f.Field, f.Message)
			for _, k := range f.Kept {
				fmt.Fprintf(&b, " [keeps %s(%s)]", k.Name, k.UID)
			}
			b.WriteString("\n")
		}
	}
	return b.String()
}
