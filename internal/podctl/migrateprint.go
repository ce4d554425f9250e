package podctl

import (
	"fmt"
	"strings"

	"github.com/podstream/podstream/internal/execsvc/decide/adoption"
	"github.com/podstream/podstream/internal/migration"
	"github.com/podstream/podstream/internal/podctl/render"
)

// wayBack says what happens to the pods if the kubelet takes Podstream's place again.
const wayBack = "Way back: stop Podstream and start the kubelet. It keeps the containers of API pods, and restarts static pods whose manifest " +
	"does not set metadata.uid."

// maxCell and maxReason bound a text in a cell of the plan, and a line, in bytes: names of sandboxes and containers are those of any
// client of the runtime.
const maxCell, maxReason = 256, 1024

// printPlan prints the plan, and notes on what it isn't based on.
func (t *tool) printPlan(report *migration.Report) error {
	if !t.output.IsTable() {
		for i := range report.Pods {
			p := &report.Pods[i]
			p.Stops, p.Lacks = render.OrEmpty(p.Stops), render.OrEmpty(p.Lacks)
		}
		return t.documents("pod").Print(struct {
			*migration.Report
			WayBack string `json:"wayBack"`
		}{report, wayBack})
	}
	for _, n := range report.Notes {
		t.note("%s", n)
	}
	wide := t.output == render.WideFormat
	header := []string{"NAMESPACE", "NAME", "ACTION"}
	if wide {
		header = append(header, "SOURCE", "UID", "STOPS")
	}
	table := render.NewTable(t.Stdout, append(header, "REASON")...)
	for _, p := range report.Pods {
		row := []string{bounded(p.Namespace, maxCell), bounded(p.Name, maxCell), string(p.Action)}
		if wide {
			row = append(row, bounded(p.Source, maxCell), bounded(p.UID, maxCell), bounded(strings.Join(p.Stops, ","), maxCell))
		}
		table.Row(append(row, bounded(p.Reason, maxReason))...)
	}
	if err := table.Flush(); err != nil {
		return err
	}
	_, err := fmt.Fprintf(t.Stdout, "%s\n%s\n%s%s\n", lacking(report.Pods), summary(report.Pods), basis(report), wayBack)
	return err
}

// bounded returns at most so many bytes of a text.
func bounded(s string, most int) string {
	if len(s) > most {
		return strings.ToValidUTF8(s[:most], "") + "..."
	}
	return s
}

// lacking lists the fields that podexecd doesn't support; empty: there are none.
func lacking(pods []adoption.Pod) string {
	var b strings.Builder
	for _, p := range pods {
		if len(p.Lacks) > 0 {
			b.WriteString("  " + render.Escape(bounded(fmt.Sprintf("%s/%s: %s", p.Namespace, p.Name, strings.Join(p.Lacks, ", ")), maxReason)) + "\n")
		}
	}
	if b.Len() == 0 {
		return ""
	}
	return "\nPodstream doesn't support these fields. Running containers go on; one that has ended may not start again:\n" + b.String()
}

// summary counts the pods.
func summary(pods []adoption.Pod) string {
	count := map[adoption.Action]int{}
	for _, p := range pods {
		count[p.Action]++
	}
	return fmt.Sprintf("Pods: %d kept, %d restarted, %d removed. Sandboxes that are ignored: %d.",
		count[adoption.Keep], count[adoption.Restart], count[adoption.Remove], count[adoption.Ignore])
}

// basis says what the plan is based on.
func basis(r *migration.Report) string {
	pods, manifests := r.PodsFrom, r.ManifestsFrom
	if pods == "" {
		pods = "not known"
	}
	if manifests == "" {
		manifests = "not known"
	}
	return render.Escape(fmt.Sprintf("Node: %s. Its pods: %s. Static pods: %s.", r.Node, pods, manifests)) + "\n"
}
