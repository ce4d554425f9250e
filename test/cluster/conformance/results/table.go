package results

import (
	"fmt"
	"strings"
)

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
// result on both, each difference is confirmed, and none is to Podstream's disadvantage.
func Summary(rows []Row) (text string, good bool) {
	var count [classes]int
	for _, r := range rows {
		count[r.Class()]++
	}
	text = fmt.Sprintf("%d specs: %d pass on both, %d are skipped on both, %d fail on both, %d are better on podstream, "+
		"%d are worse on podstream or skipped on one only, %d differ and need more runs, %d lack a result of one.",
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
