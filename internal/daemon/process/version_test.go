package process

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// The version that the build sets goes before the one that Go records.
func TestVersion(t *testing.T) {
	recorded := Version()
	if recorded == "" {
		t.Error("a build without -ldflags has an empty version; want what Go recorded, or unknown")
	}
	t.Cleanup(func() { version = "" })
	version = "v1.2.3"
	if got := Version(); got != "v1.2.3" {
		t.Errorf("with -ldflags the version is %q; want v1.2.3", got)
	}
}

// `make build` sets the version by the name of this package's variable, and strips the binaries.
func TestBuildSetsVersion(t *testing.T) {
	makefile, err := os.ReadFile(filepath.Join("..", "..", "..", "Makefile"))
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"-X github.com/podstream/podstream/internal/daemon/process.version=$(VERSION)", "-s -w ", "-ldflags '$(LDFLAGS)'"} {
		if !strings.Contains(string(makefile), want) {
			t.Errorf("the Makefile lacks %q", want)
		}
	}
}
