package differential

import (
	"bytes"
	"encoding/json"
	"flag"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
)

var writeMetrics = flag.Bool("write-metrics", false, "write the list of the kubelet's metrics anew")

// metricList has the metrics of the kubelet's package of metrics, one to a line: name, type, labels, buckets. Tests of
// internal/kubeletmetrics compare Podstream's metrics, and docs/metrics.md, with it.
const metricList = "../../internal/kubeletmetrics/testdata/upstream.txt"

// TestMetricList: the committed list is that of the kubelet's source, in the version of test/cluster/programs.
func TestMetricList(t *testing.T) {
	command := exec.Command("go", "mod", "download", "-json", "k8s.io/kubernetes")
	command.Dir = "../cluster/programs"
	out, err := command.Output()
	if err != nil {
		t.Fatalf("download k8s.io/kubernetes: %v", err)
	}
	var module struct{ Version, Dir string }
	if err := json.Unmarshal(out, &module); err != nil {
		t.Fatal(err)
	}
	lines := readMetrics(t, filepath.Join(module.Dir, "pkg/kubelet/metrics/metrics.go"))
	if len(lines) < 90 {
		t.Errorf("%d metrics were found; want at least 90", len(lines))
	}
	want := fmt.Sprintf("# The metrics in pkg/kubelet/metrics of Kubernetes %s. make differential checks it.\n%s\n", module.Version, strings.Join(lines, "\n"))
	if *writeMetrics {
		if err := os.WriteFile(metricList, []byte(want), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	got, err := os.ReadFile(metricList)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(got, []byte(want)) {
		t.Errorf("%s is not the kubelet's list: run hack/differential.sh test -run=TestMetricList -write-metrics", metricList)
	}
}

// metricSource is the source of a package of metrics: its constants and variables by name.
type metricSource struct {
	t      *testing.T
	values map[string]ast.Expr
}

// readMetrics returns the metrics that a file constructs, sorted.
func readMetrics(t *testing.T, path string) []string {
	file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.SkipObjectResolution)
	if err != nil {
		t.Fatal(err)
	}
	s := metricSource{t: t, values: map[string]ast.Expr{}}
	for _, d := range file.Decls {
		general, ok := d.(*ast.GenDecl)
		if !ok {
			continue
		}
		for _, spec := range general.Specs {
			if value, ok := spec.(*ast.ValueSpec); ok && len(value.Values) == len(value.Names) {
				for i, name := range value.Names {
					s.values[name.Name] = value.Values[i]
				}
			}
		}
	}
	var lines []string
	ast.Inspect(file, func(n ast.Node) bool {
		call, ok := n.(*ast.CallExpr)
		if !ok {
			return true
		}
		name, _ := strings.CutPrefix(selected(call.Fun), "New")
		kind := strings.ToLower(strings.TrimSuffix(name, "Vec"))
		switch {
		case kind == "desc":
			lines = append(lines, s.desc(call))
		case slices.Contains([]string{"counter", "gauge", "histogram"}, kind):
			lines = append(lines, s.line(kind, call))
		}
		return true
	})
	slices.Sort(lines)
	return lines
}

// line returns the line of a constructor's call.
func (s metricSource) line(kind string, call *ast.CallExpr) string {
	options := call.Args[0].(*ast.UnaryExpr).X.(*ast.CompositeLit)
	subsystem, name, buckets := "", "", "-"
	for _, e := range options.Elts {
		field := e.(*ast.KeyValueExpr)
		switch field.Key.(*ast.Ident).Name {
		case "Subsystem":
			subsystem = s.text(field.Value)
		case "Name":
			name = s.text(field.Value)
		case "Buckets":
			buckets = numbers(s.buckets(field.Value))
		}
	}
	labels := "-"
	if len(call.Args) > 1 {
		labels = s.labels(call.Args[1])
	}
	return fmt.Sprintf("%s_%s %s %s %s", subsystem, name, kind, labels, buckets)
}

// desc returns the line of a gauge that has only a description.
func (s metricSource) desc(call *ast.CallExpr) string {
	parts := call.Args[0].(*ast.CallExpr).Args
	return fmt.Sprintf("%s_%s gauge %s -", s.text(parts[1]), s.text(parts[2]), s.labels(call.Args[2]))
}

func (s metricSource) labels(e ast.Expr) string {
	var labels []string
	for _, l := range e.(*ast.CompositeLit).Elts {
		labels = append(labels, s.text(l))
	}
	if len(labels) == 0 {
		return "-"
	}
	return strings.Join(labels, ",")
}

// text returns the value of a string, or of a constant of the package.
func (s metricSource) text(e ast.Expr) string {
	switch e := e.(type) {
	case *ast.BasicLit:
		text, err := strconv.Unquote(e.Value)
		if err == nil {
			return text
		}
	case *ast.Ident:
		if value := s.values[e.Name]; value != nil {
			return s.text(value)
		}
	}
	s.t.Fatalf("%T is not a text", e)
	return ""
}

// buckets returns the buckets that an expression has.
func (s metricSource) buckets(e ast.Expr) []float64 {
	switch e := e.(type) {
	case *ast.Ident:
		return s.buckets(s.values[e.Name])
	case *ast.SelectorExpr:
		if e.Sel.Name == "DefBuckets" {
			return []float64{.005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10}
		}
	case *ast.CompositeLit:
		var out []float64
		for _, n := range e.Elts {
			out = append(out, s.number(n))
		}
		return out
	case *ast.CallExpr:
		first, second, count := s.number(e.Args[0]), s.number(e.Args[1]), int(s.number(e.Args[2]))
		factor := second
		if selected(e.Fun) == "ExponentialBucketsRange" {
			factor = math.Pow(second/first, 1/float64(count-1))
		}
		var out []float64
		for i := range count {
			out = append(out, first*math.Pow(factor, float64(i)))
		}
		return out
	}
	s.t.Fatalf("%T has no buckets", e)
	return nil
}

func (s metricSource) number(e ast.Expr) float64 {
	literal, ok := e.(*ast.BasicLit)
	if !ok {
		s.t.Fatalf("%T is no number", e)
	}
	n, err := strconv.ParseFloat(literal.Value, 64)
	if err != nil {
		s.t.Fatal(err)
	}
	return n
}

func numbers(list []float64) string {
	var out []string
	for _, n := range list {
		out = append(out, strconv.FormatFloat(n, 'g', 6, 64))
	}
	return strings.Join(out, ",")
}

// selected returns the name of a function of another package.
func selected(f ast.Expr) string {
	if s, ok := f.(*ast.SelectorExpr); ok {
		return s.Sel.Name
	}
	return ""
}
