package results

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// The kept results are whole and good, and docs/conformance.md has their reports: of the conformance specs, of those of test/e2e_node,
// and of those of storage, of which some were not run yet.
func TestKept(t *testing.T) {
	doc, err := os.ReadFile(filepath.Join("..", "..", "..", "..", "docs", "conformance.md"))
	if err != nil {
		t.Fatal(err)
	}
	for dir, least := range map[string]Grade{"kept": Good, "kept-node": Good, "kept-storage": Partial} {
		dir := filepath.Join("testdata", dir)
		runtimes, err := filepath.Glob(filepath.Join(dir, Agents[0], "*"))
		if err != nil || len(runtimes) == 0 {
			t.Fatalf("%s has results of %v, %v", dir, runtimes, err)
		}
		for _, runtime := range runtimes {
			// The kubelet's commit is its version, which is that of the specs.
			kubelets, err := filepath.Glob(filepath.Join(runtime, "*.jsonl"))
			if err != nil || len(kubelets) != 1 {
				t.Fatalf("%s has results of %v, %v", runtime, kubelets, err)
			}
			version := strings.TrimSuffix(filepath.Base(kubelets[0]), ".jsonl")
			text, grade, err := Report(dir, Key{Runtime: filepath.Base(runtime), Specs: version}, [2]string{}, false)
			if err != nil {
				t.Fatal(err)
			}
			if !strings.Contains(string(doc), text) {
				t.Errorf("docs/conformance.md lacks the report of %s:\n%s", runtime, text)
			}
			if grade < least {
				t.Errorf("the results of %s aren't good:\n%s", runtime, text)
			}
		}
	}
}
