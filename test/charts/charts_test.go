package charts

import (
	"context"
	"flag"
	"fmt"
	"math"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/prometheus/prometheus/promql"
)

const (
	recordingFile = "testdata/node.jsonl.gz"
	emptyFile     = "testdata/empty.yaml"
)

// checker evaluates queries, and compares those without a result with the list of reasons.
type checker struct {
	r       *recording
	reasons map[string]string
	used    map[string]bool
	// problems are the queries without a result and without a reason.
	problems []string
}

func newChecker(t *testing.T) *checker {
	t.Helper()
	return &checker{r: load(t, recordingFile, "podstream"), reasons: list(t, emptyFile), used: map[string]bool{}}
}

// check evaluates a query. A reason is for a metric: a query is excused if one of its selectors without a result has
// one.
func (c *checker) check(t *testing.T, q query) {
	t.Helper()
	v, err := c.r.eval(t.Context(), q.expr)
	if err != nil {
		t.Fatalf("%s: %s: %v", q.where, q.expr, err)
	}
	if len(v) > 0 {
		return
	}
	excused := false
	for _, s := range selectors(t, q.expr) {
		v, err := c.r.eval(t.Context(), s)
		if err != nil {
			t.Fatalf("%s: %s: %v", q.where, s, err)
		}
		if name, _, _ := strings.Cut(s, "{"); len(v) == 0 && c.reasons[name] != "" {
			c.used[name], excused = true, true
		}
	}
	if !excused {
		c.problems = append(c.problems, fmt.Sprintf("%s has no result: %s", q.where, q.expr))
	}
}

// all returns the queries of the dashboard, of the rules, and of kubernetes-mixin. Alerts must not fire on a good
// node, so that their selectors are checked instead. The recording rules are added to the recording.
func (c *checker) all(t *testing.T) []query {
	t.Helper()
	out := dashboard(t)
	recorded, alerts := rules(t)
	for _, r := range recorded {
		n, err := c.r.record(t.Context(), r.Record, r.Expr, r.Labels)
		if err != nil {
			t.Fatal(err)
		}
		if n == 0 {
			t.Errorf("rule %s has no result: %s", r.Record, r.Expr)
		}
	}
	for _, a := range alerts {
		for _, s := range selectors(t, a.Expr) {
			out = append(out, query{"alert " + a.Alert, s})
		}
	}
	mixin := list(t, mixinFile)
	for name, expr := range mixin {
		if strings.HasPrefix(name, "alert ") {
			for _, s := range selectors(t, expr) {
				out = append(out, query{"kubernetes-mixin: " + name, s})
			}
			continue
		}
		out = append(out, query{"kubernetes-mixin: " + name, variables.Replace(expr)})
	}
	return out
}

// TestQueries: on the recorded node every query has a result, or a reason why there is none. A reason that isn't
// needed is an error too.
func TestQueries(t *testing.T) {
	c := newChecker(t)
	queries := c.all(t)
	for _, q := range queries {
		c.check(t, q)
	}
	for _, p := range c.problems {
		t.Error(p)
	}
	for name := range c.reasons {
		if !c.used[name] {
			t.Errorf("%s has the reason of %s, which needs none", emptyFile, name)
		}
	}
	t.Logf("%d queries; %d metrics have no series, with a reason", len(queries), len(c.used))
}

// metricName is the name of a metric in a selector.
var metricName = regexp.MustCompile(`[a-z_:]+\{`)

// TestWrongName plants a wrong metric name in each query. The check must find each.
func TestWrongName(t *testing.T) {
	c := newChecker(t)
	planted := 0
	for _, q := range c.all(t) {
		at := metricName.FindStringIndex(q.expr)
		if at == nil {
			t.Fatalf("%s has no selector with braces: %s", q.where, q.expr)
		}
		wrong := query{q.where, q.expr[:at[1]-1] + "_wrong" + q.expr[at[1]-1:]}
		before := len(c.problems)
		c.check(t, wrong)
		// The second part of "a or b" is enough, and absent() has a result for any name.
		if len(c.problems) == before && !strings.Contains(q.expr, " or ") && !strings.HasPrefix(q.expr, "absent(") {
			if v, err := c.r.eval(t.Context(), q.expr); err != nil || len(v) > 0 {
				t.Errorf("%s: the wrong name isn't found: %s", q.where, wrong.expr)
			}
		}
		planted++
	}
	t.Logf("%d wrong names", planted)
}

// TestNoAlert: no alert fires on the recorded node, except those for what its pods do on purpose.
func TestNoAlert(t *testing.T) {
	c := newChecker(t)
	c.all(t)
	_, alerts := rules(t)
	onPurpose := []string{"PodstreamRuntimeErrors"}
	for _, a := range alerts {
		v, err := c.r.eval(t.Context(), a.Expr)
		if err != nil {
			t.Fatal(err)
		}
		if len(v) > 0 && !slices.Contains(onPurpose, a.Alert) {
			t.Errorf("%s fires: %v", a.Alert, v)
		}
	}
}

// TestRunbooks: each alert names a section of the documentation that exists.
func TestRunbooks(t *testing.T) {
	_, alerts := rules(t)
	for _, a := range alerts {
		file, section, _ := strings.Cut(a.Annotations["runbook"], "#")
		data, err := os.ReadFile("../../" + file)
		if err != nil {
			t.Errorf("%s: %v", a.Alert, err)
			continue
		}
		found := false
		for line := range strings.Lines(string(data)) {
			if title, ok := strings.CutPrefix(strings.TrimSpace(line), "## "); ok && anchor(title) == section {
				found = true
			}
		}
		if !found {
			t.Errorf("%s: %s has no section #%s", a.Alert, file, section)
		}
	}
}

// anchor returns the anchor of a heading, as GitHub makes it.
func anchor(title string) string {
	title = strings.ToLower(strings.ReplaceAll(title, " ", "-"))
	return regexp.MustCompile(`[^a-z0-9_-]`).ReplaceAllString(title, "")
}

var both = flag.String("recording", "", "a `file` with the recording of a Podstream node and of a kubelet node")

// TestCompare prints each query's number of series and sum on a Podstream node and on a kubelet node.
func TestCompare(t *testing.T) {
	if *both == "" {
		t.Skip("make charts-compare gives -recording")
	}
	nodes := []*checker{{r: load(t, *both, "podstream")}, {r: load(t, *both, "kubelet")}}
	fmt.Printf("%-58s %-26s %s\n", "query", "Podstream", "kubelet")
	missing := 0
	nodes[0].all(t)
	for _, q := range nodes[1].allOf(t) {
		var shown [2]string
		var counts [2]int
		for i, n := range nodes {
			v, err := n.r.eval(context.Background(), q.expr)
			if err != nil {
				t.Fatal(err)
			}
			shown[i], counts[i] = show(v), len(v)
		}
		note := ""
		if counts[0] == 0 && counts[1] > 0 {
			missing++
			note = "  <- missing"
		}
		fmt.Printf("%-58.58s %-26s %-26s%s\n", q.where, shown[0], shown[1], note)
	}
	if missing > 0 {
		t.Errorf("%d queries have a result on the kubelet's node only", missing)
	}
}

// allOf is all without an error for the kubelet's node.
func (c *checker) allOf(t *testing.T) []query {
	t.Helper()
	out := c.all(t)
	slices.SortStableFunc(out, func(a, b query) int { return strings.Compare(a.where, b.where) })
	return out
}

// show returns the number of series, and their sum.
func show(v promql.Vector) string {
	if len(v) == 0 {
		return "-"
	}
	sum, known := 0.0, 0
	for _, s := range v {
		if !math.IsNaN(s.F) {
			sum += s.F
			known++
		}
	}
	if known == 0 {
		return fmt.Sprintf("NaN (%d series)", len(v))
	}
	return fmt.Sprintf("%.6g (%d series)", sum, len(v))
}
