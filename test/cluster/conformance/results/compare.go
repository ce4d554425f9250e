package results

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"
)

// Runs is how often both agents run a spec on which they differ, before the difference counts.
const Runs = 3

// Verdict is what the runs of a spec say together.
type Verdict string

// The verdicts. Unsteady is a spec that passed and failed.
const (
	Missing  Verdict = "-"
	Passes   Verdict = "passes"
	Fails    Verdict = "fails"
	Unsteady Verdict = "unsteady"
	IsSkip   Verdict = "skipped"
)

// VerdictOf returns the verdict of some runs, and the reason of the last that didn't pass.
func VerdictOf(runs []Result) (v Verdict, reason string) {
	v = Missing
	for _, r := range runs {
		this := map[string]Verdict{Passed: Passes, Skipped: IsSkip}[r.State]
		if this == "" {
			this = Fails
		}
		if v != Missing && v != this {
			this = Unsteady
		}
		v = this
		if r.State != Passed {
			reason = r.Reason
		}
	}
	return v, reason
}

// Row compares the agents in one spec.
type Row struct {
	Spec string
	// Kubelet and Podstream are the verdicts, KubeletRuns and PodstreamRuns the numbers of runs.
	Kubelet, Podstream         Verdict
	KubeletRuns, PodstreamRuns int
	// Reason is why one of them doesn't pass.
	Reason string
}

// Differs reports whether the agents have different verdicts.
func (r Row) Differs() bool {
	return r.Kubelet != Missing && r.Podstream != Missing && r.Kubelet != r.Podstream
}

// Counts reports whether a difference has been confirmed. A spec that only one agent skips differs at once.
func (r Row) Counts() bool {
	skip := (r.Kubelet == IsSkip) != (r.Podstream == IsSkip)
	return r.Differs() && (skip || r.KubeletRuns >= Runs && r.PodstreamRuns >= Runs)
}

// Compare returns a row for each spec of either agent, by name.
func Compare(kubelet, podstream map[string][]Result) []Row {
	specs := slices.Sorted(maps.Keys(kubelet))
	for spec := range podstream {
		if _, ok := kubelet[spec]; !ok {
			specs = append(specs, spec)
		}
	}
	slices.Sort(specs)
	var rows []Row
	for _, spec := range specs {
		row := Row{Spec: spec, KubeletRuns: len(kubelet[spec]), PodstreamRuns: len(podstream[spec])}
		var theirs, ours string
		row.Kubelet, theirs = VerdictOf(kubelet[spec])
		row.Podstream, ours = VerdictOf(podstream[spec])
		switch {
		case ours == theirs || ours == "":
			row.Reason = theirs
		case theirs == "":
			row.Reason = ours
		default:
			row.Reason = fmt.Sprintf("kubelet: %s; podstream: %s", theirs, ours)
		}
		rows = append(rows, row)
	}
	return rows
}

// Next returns the specs that a run of one agent does next, given the results of both: those without a result, in the
// given order, and then those that differ and have fewer than Runs runs.
func Next(specs []string, own, other map[string][]Result) []string {
	var first, again []string
	for _, spec := range specs {
		row := Compare(map[string][]Result{spec: own[spec]}, map[string][]Result{spec: other[spec]})[0]
		switch {
		case row.Kubelet == Missing: // here, this agent
			first = append(first, spec)
		case row.Differs() && !row.Counts() && row.KubeletRuns < Runs:
			again = append(again, spec)
		}
	}
	return append(first, again...)
}

// Table returns the rows as a table in Markdown, and a summary. Of the specs that pass or are skipped on both, it has
// the numbers only, unless all are wanted.
func Table(rows []Row, all bool) string {
	var text strings.Builder
	text.WriteString("| spec | kubelet | podstream | reason |\n|---|---|---|---|\n")
	both, skips, confirmed, open := 0, 0, 0, 0
	for _, r := range rows {
		switch {
		case r.Kubelet == Passes && r.Podstream == Passes:
			both++
		case r.Kubelet == IsSkip && r.Podstream == IsSkip:
			skips++
		case r.Counts():
			confirmed++
		case r.Differs():
			open++
		}
		if all || r.Kubelet != Passes || r.Podstream != Passes {
			fmt.Fprintf(&text, "| %s | %s | %s | %s |\n", cell(r.Spec), verdict(r.Kubelet, r.KubeletRuns), verdict(r.Podstream, r.PodstreamRuns), cell(r.Reason))
		}
	}
	fmt.Fprintf(&text, "\n%d specs: %d pass on both, %d are skipped on both, %d differ in %d runs of each, %d differ and need more runs.\n",
		len(rows), both, skips, confirmed, Runs, open)
	return text.String()
}

func verdict(v Verdict, runs int) string {
	if runs > 1 {
		return fmt.Sprintf("%s (%d runs)", v, runs)
	}
	return string(v)
}

// longest is the greatest length of a cell.
const longest = 200

// cell returns a text as a cell of a table.
func cell(text string) string {
	text = strings.ReplaceAll(strings.Join(strings.Fields(text), " "), "|", "\\|")
	if runes := []rune(text); len(runes) > longest {
		return string(runes[:longest]) + "…"
	}
	return text
}

func byTime(times map[string]time.Time) []string {
	return slices.SortedFunc(maps.Keys(times), func(a, b string) int {
		if order := times[b].Compare(times[a]); order != 0 {
			return order
		}
		return strings.Compare(a, b)
	})
}
