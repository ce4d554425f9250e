package validate_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/cockroachdb/datadriven"

	"github.com/podstream/podstream/internal/manifest"
)

// TestScenarios runs the files of testdata. Each "parse" directive has a manifest and, after "----", the result: the
// findings, and the pods as lines. The argument node=NAME sets the node's name. The rules need adopted pods with defaults, so manifests are read by manifest.Parse.
func TestScenarios(t *testing.T) {
	datadriven.Walk(t, "testdata", func(t *testing.T, path string) {
		datadriven.RunTest(t, path, func(t *testing.T, d *datadriven.TestData) string {
			if d.Cmd != "parse" {
				d.Fatalf(t, "unknown directive %q", d.Cmd)
			}
			opts := manifest.Options{Origin: "/etc/podstream/manifests/web.yaml", Node: "Node1"}
			d.MaybeScanArgs(t, "node", &opts.Node)
			return summary(t, manifest.Parse([]byte(d.Input), opts))
		})
	})
}

// summary returns the origin as lines. Each finding must be one line, and its redacted form must not quote the value.
func summary(t *testing.T, o *manifest.Origin) string {
	t.Helper()
	var b strings.Builder
	if o.Held {
		b.WriteString("held\n")
	}
	errors := 0
	for _, f := range o.Findings {
		severity := map[manifest.Severity]string{manifest.Warning: "warning", manifest.Error: "error"}[f.Severity]
		if f.Severity == manifest.Error {
			errors++
		}
		if f.Message == "" || strings.ContainsAny(f.Message+f.Field, "\n\r\x00") {
			t.Errorf("finding isn't one line: %+v", f)
		}
		if r := f.Redacted(); r.Message == "" || r.Unquoted != "" || !strings.HasPrefix(f.Field, r.Field) || r != r.Redacted() {
			t.Errorf("finding %+v is redacted to %+v", f, r)
		}
		fmt.Fprintf(&b, "%d %s %s: %s\n", f.Document, severity, f.Field, f.Message)
	}
	if o.Held != (errors > 0) {
		t.Errorf("Held is %v with %d errors", o.Held, errors)
	}
	for _, p := range o.Pods {
		fmt.Fprintf(&b, "%d pod %s/%s %s\n", p.Document, p.Namespace, p.Name, p.UID)
	}
	return b.String()
}
