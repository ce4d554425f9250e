package charts

import (
	"encoding/json"
	"log/slog"
	"os"
	"strings"
	"testing"

	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/rulefmt"
	"github.com/prometheus/prometheus/promql/parser"
	"go.yaml.in/yaml/v3"
)

const (
	dashboardFile = "../../deploy/grafana/kubelet.json"
	rulesFile     = "../../deploy/prometheus/podstream.rules.yaml"
	mixinFile     = "testdata/mixin.yaml"
)

// query is one expression, with the place where it stands.
type query struct{ where, expr string }

// variables are the dashboard's variables, with the values for all nodes.
var variables = strings.NewReplacer("$__rate_interval", "1m", "$instance", ".+", "$podconfigd", ".+")

// dashboard returns the queries of all panels.
func dashboard(t *testing.T) []query {
	t.Helper()
	data, err := os.ReadFile(dashboardFile)
	if err != nil {
		t.Fatal(err)
	}
	var d struct {
		Panels []struct {
			Title   string
			Targets []struct{ RefID, Expr string }
		}
	}
	if err := json.Unmarshal(data, &d); err != nil {
		t.Fatal(err)
	}
	var out []query
	for _, p := range d.Panels {
		for _, target := range p.Targets {
			out = append(out, query{"panel " + p.Title + " " + target.RefID, variables.Replace(target.Expr)})
		}
	}
	return out
}

// rules returns the rules of deploy.
func rules(t *testing.T) (recorded, alerts []rulefmt.Rule) {
	t.Helper()
	groups, errs := rulefmt.ParseFile(rulesFile, false, model.UTF8Validation, parser.NewParser(parser.Options{}), slog.New(slog.DiscardHandler))
	for _, err := range errs {
		t.Fatal(err)
	}
	for _, g := range groups.Groups {
		for _, r := range g.Rules {
			if r.Record != "" {
				recorded = append(recorded, r)
			} else {
				alerts = append(alerts, r)
			}
		}
	}
	return recorded, alerts
}

// list reads a file with strings and texts.
func list(t *testing.T, file string) map[string]string {
	t.Helper()
	data, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	out := map[string]string{}
	if err := yaml.Unmarshal(data, &out); err != nil {
		t.Fatalf("%s: %v", file, err)
	}
	return out
}

// selectors returns the selectors of an expression, as queries of the last samples.
func selectors(t *testing.T, expr string) []string {
	t.Helper()
	root, err := parser.NewParser(parser.Options{}).ParseExpr(expr)
	if err != nil {
		t.Fatalf("%s: %v", expr, err)
	}
	var out []string
	parser.Inspect(root, func(node parser.Node, _ []parser.Node) error {
		if v, ok := node.(*parser.VectorSelector); ok {
			out = append(out, v.String())
		}
		return nil
	})
	return out
}
