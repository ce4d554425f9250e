package results

import (
	"fmt"
	"strings"
)

// Agents are the agents of a report, the one to compare with first.
var Agents = []string{"kubelet", "podstream"}

// Report returns both agents' results on a runtime as text in Markdown: their numbers, the specs that don't pass on both,
// or all, and the summary. It is good if Podstream does what the kubelet does, as in Summary. commits are of the agents; an
// empty one means the latest.
func Report(dir string, key Key, commits [2]string, all bool) (text string, good bool, err error) {
	var sides [2]map[string][]Result
	for i, agent := range Agents {
		key.Agent, key.Commit = agent, commits[i]
		if key.Commit == "" {
			commits[i], sides[i], err = Latest(dir, key)
		} else {
			sides[i], err = Load(dir, key)
		}
		if err != nil {
			return "", false, err
		}
		if len(sides[i]) == 0 {
			return "", false, fmt.Errorf("%s has no results of %s %s on %s", dir, agent, commits[i], key.Runtime)
		}
	}
	rows := Compare(sides[0], sides[1])
	text = fmt.Sprintf("Specs of Kubernetes %s on %s:\n\n", key.Specs, key.Runtime) +
		"| agent | commit | specs | pass | fail | unsteady | skipped | runs |\n|---|---|---|---|---|---|---|---|\n" +
		counts(Agents[0], commits[0], sides[0]) + counts(Agents[1], commits[1], sides[1]) + "\n"
	if shown := Table(rows, all); shown != Table(nil, all) {
		text += shown + "\n"
	}
	summary, good := Summary(rows)
	return text + summary + "\n", good, nil
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

// Table returns the rows as a table in Markdown. It leaves out the specs that pass on both, unless all are wanted.
func Table(rows []Row, all bool) string {
	var text strings.Builder
	text.WriteString("| spec | kubelet | podstream | reason |\n|---|---|---|---|\n")
	for _, r := range rows {
		if all || r.Class() != PassOnBoth {
			fmt.Fprintf(&text, "| %s | %s | %s | %s |\n", cell(r.Spec), runs(r.Kubelet, r.KubeletRuns), runs(r.Podstream, r.PodstreamRuns), cell(r.Reason))
		}
	}
	return text.String()
}

// Summary returns the number of rows of each class, and whether Podstream does what the kubelet does: each spec has a
// result on both, each difference and failure is confirmed, and none is to Podstream's disadvantage.
func Summary(rows []Row) (text string, good bool) {
	var count [classes]int
	for _, r := range rows {
		count[r.Class()]++
	}
	text = fmt.Sprintf("%d specs: %d pass on both, %d are skipped on both, %d fail on both, %d are better on podstream, "+
		"%d are worse on podstream or skipped on one only, %d differ or fail and need more runs, %d lack a result of one.",
		len(rows), count[PassOnBoth], count[SkippedOnBoth], count[FailOnBoth], count[Better], count[Worse], count[Unconfirmed], count[Lacking])
	return text, count[PassOnBoth] > 0 && count[Worse]+count[Unconfirmed]+count[Lacking] == 0
}

func runs(v Verdict, n int) string {
	if n > 1 {
		return fmt.Sprintf("%s (%d runs)", v, n)
	}
	return string(v)
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
