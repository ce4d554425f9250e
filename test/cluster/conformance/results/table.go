package results

import (
	"fmt"
	"strings"
)

// Agents are the agents of a report, the one to compare with first.
var Agents = []string{"kubelet", "podstream"}

// Grade says whether Podstream does what the kubelet does.
type Grade int

// The grades.
const (
	// Bad: a spec is worse on podstream, or skipped on one only, or not confirmed; or no spec passes on both.
	Bad Grade = iota
	// Partial is Good for the specs that have a result on both, and others lack one.
	Partial
	// Good: each spec has a result on both, each difference and failure is confirmed, and none is to Podstream's disadvantage but those of Decided.
	Good
)

// Report returns both agents' results on a runtime as text in Markdown: their numbers, the specs that don't pass on both,
// or all, and the summary; and its grade. commits are of the agents; an empty one means the latest.
func Report(dir string, key Key, commits [2]string, all bool) (text string, grade Grade, err error) {
	var sides [2]map[string][]Result
	for i, agent := range Agents {
		key.Agent, key.Commit = agent, commits[i]
		if key.Commit == "" {
			commits[i], sides[i], err = Latest(dir, key)
		} else {
			sides[i], err = Load(dir, key)
		}
		if err != nil {
			return "", Bad, err
		}
		if len(sides[i]) == 0 {
			return "", Bad, fmt.Errorf("%s has no results of %s %s on %s", dir, agent, commits[i], key.Runtime)
		}
	}
	rows := Compare(sides[0], sides[1])
	text = fmt.Sprintf("Specs of Kubernetes %s on %s:\n\n", key.Specs, key.Runtime) +
		"| agent | commit | specs | pass | fail | unsteady | skipped | runs |\n|---|---|---|---|---|---|---|---|\n" +
		counts(Agents[0], commits[0], sides[0]) + counts(Agents[1], commits[1], sides[1]) + "\n"
	if shown := Table(rows, all); shown != Table(nil, all) {
		text += shown + "\n"
	}
	summary, grade := Summary(rows)
	return text + summary + "\n", grade, nil
}

// counts returns the row of an agent's numbers.
func counts(agent, commit string, specs map[string][]Result) string {
	count, runs := map[Verdict]int{}, 0
	for _, results := range specs {
		verdict, _ := VerdictOf(results)
		count[verdict]++
		runs += len(results)
	}
	row := []any{agent, commit, len(specs), count[Passes], count[Fails], count[Unsteady], count[IsSkip], runs}
	return fmt.Sprintf("|"+strings.Repeat(" %v |", len(row))+"\n", row...)
}

// fewSkipped is the greatest number of specs that both agents skip for one reason and that have a row each.
const fewSkipped = 3

// Table returns the rows as a table in Markdown. Unless all are wanted, it leaves out the specs that pass on both, or
// lack a result of one and didn't fail on the other, and has one row for many specs that are skipped on both for one reason.
func Table(rows []Row, all bool) string {
	skipped := map[string]int{}
	for _, r := range rows {
		if r.Class() == SkippedOnBoth {
			skipped[r.Reason]++
		}
	}
	var text strings.Builder
	text.WriteString("| spec | kubelet | podstream | reason |\n|---|---|---|---|\n")
	for _, r := range rows {
		if !all && (r.Class() == PassOnBoth || r.waits()) {
			continue
		}
		spec := r.Spec
		if n := skipped[r.Reason]; !all && r.Class() == SkippedOnBoth && n > fewSkipped {
			spec = fmt.Sprintf("%d specs, the first: %s", n, r.Spec)
			skipped[r.Reason] = 0
		} else if n == 0 && r.Class() == SkippedOnBoth {
			continue // in the row of the first
		}
		fmt.Fprintf(&text, "| %s | %s | %s | %s |\n", cell(spec), runs(r.Kubelet, r.KubeletRuns), runs(r.Podstream, r.PodstreamRuns), cell(r.Reason))
	}
	return text.String()
}

// Summary returns the number of rows of each class, and their grade.
func Summary(rows []Row) (text string, grade Grade) {
	var count [classes]int
	for _, r := range rows {
		count[r.Class()]++
	}
	text = fmt.Sprintf("%d specs: %d pass on both, %d are skipped on both, %d fail on both, %d are better on podstream, "+
		"%d are worse on podstream or skipped on one only, %d differ or fail and need more runs, %d lack a result of one.",
		len(rows), count[PassOnBoth], count[SkippedOnBoth], count[FailOnBoth], count[Better], count[Worse], count[Unconfirmed], count[Lacking])
	if count[Differs] > 0 {
		text += fmt.Sprintf(" %d differ by decision.", count[Differs])
	}
	switch {
	case count[PassOnBoth] == 0 || count[Worse]+count[Unconfirmed] > 0:
		return text, Bad
	case count[Lacking] > 0:
		return text, Partial
	default:
		return text, Good
	}
}

func runs(v Verdict, n int) string {
	if n > 1 {
		return fmt.Sprintf("%s (%d runs)", v, n)
	}
	return string(v)
}

// waits reports whether a spec was run on one agent only, and has passed or was skipped there.
func (r Row) waits() bool {
	of := r.Kubelet
	if of == Missing {
		of = r.Podstream
	}
	return r.Class() == Lacking && (of == Passes || of == IsSkip)
}

// longestCell is the greatest length of a cell.
const longestCell = 200

// cell returns a text as a cell of a table.
func cell(text string) string {
	text = strings.Join(strings.Fields(text), " ")
	if runes := []rune(text); len(runes) > longestCell {
		text = string(runes[:longestCell]) + "…"
	}
	return strings.ReplaceAll(text, "|", "\\|")
}
