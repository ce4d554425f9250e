package podbench

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"text/tabwriter"
	"time"
)

// quantiles are the printed quantiles.
var quantiles = []struct {
	name string
	p    float64
}{{"p50", 0.5}, {"p90", 0.9}, {"p99", 0.99}}

// series are the times of one side.
type series struct {
	name  string
	times []time.Duration
}

func (s *series) add(d time.Duration) { s.times = append(s.times, d) }

func (s *series) at(p float64) time.Duration {
	sorted := slices.Sorted(slices.Values(s.times))
	return sorted[min(int(p*float64(len(sorted))), len(sorted)-1)]
}

// report prints the product's times beside those of the fastest floor.
func report(b *testing.B, product *series, floors ...*series) {
	b.Helper()
	reportBeside(b, product, nil, floors...)
}

// reportBeside is report with another agent's times, or nil.
func reportBeside(b *testing.B, product, other *series, floors ...*series) {
	b.Helper()
	best := slices.MinFunc(floors, func(x, y *series) int { return int(x.at(0.5) - y.at(0.5)) })
	var text strings.Builder
	table := tabwriter.NewWriter(&text, 0, 0, 2, ' ', tabwriter.AlignRight)
	row := func(name string, value func(p float64) string) {
		fmt.Fprintf(table, "%s\t", name)
		for _, q := range quantiles {
			fmt.Fprintf(table, "%s\t", value(q.p))
		}
		fmt.Fprintln(table)
	}
	fmt.Fprintf(table, "n=%d\t", len(product.times))
	for _, q := range quantiles {
		fmt.Fprintf(table, "%s\t", q.name)
	}
	fmt.Fprintln(table)
	for _, s := range append(floors, product) {
		row(s.name, func(p float64) string { return fmt.Sprintf("%.1f ms", milliseconds(s.at(p))) })
	}
	row("over the floor", func(p float64) string { return fmt.Sprintf("%+.1f ms", milliseconds(product.at(p)-best.at(p))) })
	ratio := func(s *series, p float64) float64 { return float64(s.at(p)) / float64(best.at(p)) }
	row("ratio", func(p float64) string { return fmt.Sprintf("%.2f", ratio(product, p)) })
	if other != nil {
		row(other.name, func(p float64) string {
			return fmt.Sprintf("%.1f ms, %.2f", milliseconds(other.at(p)), ratio(other, p))
		})
		b.ReportMetric(ratio(other, 0.5), "ratio/"+other.name)
	}
	_ = table.Flush()
	b.Logf("\n%s", text.String())

	b.ReportMetric(milliseconds(best.at(0.5)), "ms/floor")
	b.ReportMetric(milliseconds(product.at(0.5)), "ms/product")
	b.ReportMetric(ratio(product, 0.5), "ratio")
	b.ReportMetric(0, "ns/op") // The time of all parts together has no meaning.
}

func milliseconds(d time.Duration) float64 { return float64(d.Microseconds()) / 1e3 }
