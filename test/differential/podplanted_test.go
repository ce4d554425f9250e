package differential

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// podFaults are mistakes in internal/manifest: a text of a file there, and its replacement.
var podFaults = map[string]struct{ file, old, fault string }{
	"a check is lost":              {"validate/container.go", "if len(spec.Containers) == 0 {", "if false {"},
	"a check of two fields":        {"validate/container.go", "case names[c.Name]:", "case false:"},
	"a check is too strict":        {"validate/container.go", "v1.PullAlways, v1.PullIfNotPresent, v1.PullNever)...", "v1.PullAlways, v1.PullNever)..."},
	"a default is another":         {"defaults.go", "defaultTo(&p.PeriodSeconds, 10)", "defaultTo(&p.PeriodSeconds, 11)"},
	"a default is lost":            {"defaults.go", "defaultTo(&spec.DNSPolicy, v1.DNSClusterFirst)", `defaultTo(&spec.DNSPolicy, "Default")`},
	"a field is lost":              {"adopt.go", "Labels: m.Labels, ", ""},
	"the toleration of files only": {"adopt.go", "if opts.OriginKind == FileKind {", "if true {"},
}

// TestFaultyParser: a mistake in internal/manifest is found within a few mutants.
func TestFaultyParser(t *testing.T) {
	dir := filepath.Join("..", "..", "internal", "manifest")
	for name, f := range podFaults {
		t.Run(name, func(t *testing.T) {
			source, err := filepath.Abs(filepath.Join(dir, f.file))
			if err != nil {
				t.Fatal(err)
			}
			text, err := os.ReadFile(source)
			if err != nil {
				t.Fatal(err)
			}
			if strings.Count(string(text), f.old) != 1 {
				t.Fatalf("%s has %q %d times; want once", f.file, f.old, strings.Count(string(text), f.old))
			}
			faulty, overlay := filepath.Join(t.TempDir(), filepath.Base(f.file)), filepath.Join(t.TempDir(), "overlay.json")
			if err := os.WriteFile(faulty, []byte(strings.Replace(string(text), f.old, f.fault, 1)), 0o600); err != nil {
				t.Fatal(err)
			}
			replace, err := json.Marshal(map[string]any{"Replace": map[string]string{source: faulty}})
			if err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(overlay, replace, 0o600); err != nil {
				t.Fatal(err)
			}
			program, err := build("parsepods-with-fault", "./test/parsepods", "-overlay="+overlay)
			if err != nil {
				t.Fatal(err)
			}
			if found := comparePods(t, program, 1, 0, 1500); found.mutants == 0 {
				t.Error("the comparison notices nothing")
			}
		})
	}
}
