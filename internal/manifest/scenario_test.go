package manifest

import (
	"fmt"
	"strings"
	"testing"

	"github.com/cockroachdb/datadriven"
	"sigs.k8s.io/yaml"
)

// TestScenarios runs the files of testdata/parse. Each "parse" directive has a manifest and, after "----", the result:
// the findings, and the pods and objects as lines. "show" prints them in full.
//
// Arguments: url (an URLKind origin), strict, origin=NAME, node=NAME. In
// the input «nul», «tab» and «xff» stand for bytes that an editor would hide or spoil.
func TestScenarios(t *testing.T) {
	datadriven.Walk(t, "testdata/parse", func(t *testing.T, path string) {
		datadriven.RunTest(t, path, func(t *testing.T, d *datadriven.TestData) string {
			opts := Options{Origin: "/etc/podstream/manifests/web.yaml", Node: "Node1"}
			if d.HasArg("url") {
				opts.OriginKind, opts.Origin = URLKind, "https://config.example/pods"
			}
			opts.Strict = d.HasArg("strict")
			d.MaybeScanArgs(t, "origin", &opts.Origin)
			d.MaybeScanArgs(t, "node", &opts.Node)
			input := strings.NewReplacer("«nul»", "\x00", "«tab»", "\t", "«xff»", "\xff").Replace(d.Input)
			o := Parse([]byte(input), opts)
			checkOrigin(t, o)
			switch d.Cmd {
			case "parse":
				return summary(o)
			case "show":
				return summary(o) + inFull(t, o)
			default:
				d.Fatalf(t, "unknown directive %q", d.Cmd)
				return ""
			}
		})
	})
}

func summary(o *Origin) string {
	var b strings.Builder
	if o.Held {
		b.WriteString("held\n")
	}
	for _, f := range o.Findings {
		severity := map[Severity]string{Warning: "warning", Error: "error"}[f.Severity]
		fmt.Fprintf(&b, "%d %s %s: %s\n", f.Document, severity, f.Field, f.Message)
	}
	for _, p := range o.Pods {
		fmt.Fprintf(&b, "%d pod %s/%s %s\n", p.Document, p.Namespace, p.Name, p.UID)
	}
	for _, object := range o.Objects {
		fmt.Fprintf(&b, "%d %s\n", object.Document, object.Key())
	}
	return b.String()
}

func inFull(t *testing.T, o *Origin) string {
	t.Helper()
	var b strings.Builder
	for _, p := range o.Pods {
		text, err := yaml.Marshal(p.Pod)
		if err != nil {
			t.Fatal(err)
		}
		b.Write(text)
	}
	for _, object := range o.Objects {
		var content any = object.ConfigMap
		if object.Secret != nil {
			content = object.Secret
		}
		text, err := yaml.Marshal(content)
		if err != nil {
			t.Fatal(err)
		}
		b.Write(text)
	}
	return b.String()
}
