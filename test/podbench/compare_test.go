package podbench

import (
	"fmt"
	"strings"
	"testing"
	"text/tabwriter"
)

// side is one way to run pods: through the daemons or, if floor is set, with bare CRI calls.
type side struct {
	name    string
	product *product
	floor   *floor

	times series
	// cpu is the CPU time that podexecd used for all its pods, in seconds, from their starts until they were
	// removed.
	cpu float64
}

// run runs one pod, and records its cost unless it is a rehearsal.
func (s *side) run(b *testing.B, p pod, rehearsal bool) {
	b.Helper()
	if s.floor != nil {
		if took := s.floor.run(b, 1, p); !rehearsal {
			s.times.add(took)
		}
		return
	}
	before := s.podexecd(b)
	took := s.product.run(b, p)
	if !rehearsal {
		s.times.add(took)
		s.cpu += s.podexecd(b).cpu - before.cpu
	}
}

// podexecd returns what the side's podexecd has used so far.
func (s *side) podexecd(b *testing.B) usage {
	b.Helper()
	return usageOf(b, "podexecd", s.product.podexecd.Pid())
}

// start is a pod for a side.
type start struct {
	side *side
	pod  pod
}

// rounds runs one pod on each side in turn, once for each measured start, and once before that to fill the
// caches.
func rounds(b *testing.B, name string, of func(name string) []start) {
	b.Helper()
	for i := range starts + 1 {
		var turns []func()
		for _, s := range of(fmt.Sprint(name, i)) {
			turns = append(turns, func() { s.side.run(b, s.pod, i == 0) })
		}
		inTurn(i, turns...)
	}
}

// ratio compares the times of two sides.
type ratio struct {
	name     string
	of, over *side
}

func (r ratio) quotient(p float64) float64 {
	return float64(r.of.times.at(p)) / float64(r.over.times.at(p))
}

// at returns how much longer the first side takes, as a time and as a ratio.
func (r ratio) at(p float64) string {
	return fmt.Sprintf("%+.1f ms, %.2f", milliseconds(r.of.times.at(p)-r.over.times.at(p)), r.quotient(p))
}

// compare prints the sides' times, podexecd's CPU time for each pod and its peak memory, and the ratios. A
// benchmark's log is cut off after nine lines.
func compare(b *testing.B, sides []*side, ratios []ratio) {
	b.Helper()
	var text strings.Builder
	table := tabwriter.NewWriter(&text, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintf(table, "n=%d\tp50\tp90\tpodexecd's CPU\tpeak RSS\t\n", starts)
	for _, s := range sides {
		fmt.Fprintf(table, "%s\t%.1f ms\t%.1f ms\t", s.name, milliseconds(s.times.at(0.5)), milliseconds(s.times.at(0.9)))
		if s.floor == nil {
			fmt.Fprintf(table, "%.1f ms\t%.1f MiB\t", 1000*s.cpu/starts, s.podexecd(b).peak)
		}
		fmt.Fprintln(table)
	}
	for _, r := range ratios {
		fmt.Fprintf(table, "%s\t%s\t%s\t", r.name, r.at(0.5), r.at(0.9))
		if r.of.floor == nil && r.over.floor == nil {
			fmt.Fprintf(table, "%+.1f ms\t%+.1f MiB\t", 1000*(r.of.cpu-r.over.cpu)/starts, r.of.podexecd(b).peak-r.over.podexecd(b).peak)
		}
		fmt.Fprintln(table)
		b.ReportMetric(r.quotient(0.5), "ratio/"+strings.NewReplacer(" ", "-", ",", "").Replace(r.name))
	}
	_ = table.Flush()
	b.Logf("\n%s", strings.TrimRight(text.String(), "\n"))
	b.ReportMetric(0, "ns/op") // The time of all parts together has no meaning.
}
