package results

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// The kept results are whole and good, and docs/conformance.md has their reports: of the conformance specs, and of those
// of test/e2e_node.
func TestKept(t *testing.T) {
	doc, err := os.ReadFile(filepath.Join("..", "..", "..", "..", "docs", "conformance.md"))
	if err != nil {
		t.Fatal(err)
	}
	version := specsVersion(t)
	for _, dir := range []string{"kept", "kept-node"} {
		dir := filepath.Join("testdata", dir)
		runtimes, err := filepath.Glob(filepath.Join(dir, Agents[0], "*"))
		if err != nil || len(runtimes) == 0 {
			t.Fatalf("%s has results of %v, %v", dir, runtimes, err)
		}
		for _, runtime := range runtimes {
			text, good, err := Report(dir, Key{Runtime: filepath.Base(runtime), Specs: version}, [2]string{}, false)
			if err != nil {
				t.Fatal(err)
			}
			if !strings.Contains(string(doc), text) {
				t.Errorf("docs/conformance.md lacks the report of %s:\n%s", runtime, text)
			}
			if !good {
				t.Errorf("the results of %s aren't good:\n%s", runtime, text)
			}
		}
	}
}

// specsVersion returns the version of Kubernetes that the specs are of.
func specsVersion(t *testing.T) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("..", "..", "programs", "go.mod"))
	if err != nil {
		t.Fatal(err)
	}
	_, rest, found := strings.Cut(string(text), "\tk8s.io/kubernetes ")
	version, _, _ := strings.Cut(rest, "\n")
	if !found {
		t.Fatal("the programs aren't of k8s.io/kubernetes")
	}
	return version
}
