package rig

import (
	"errors"
	"os"
	"testing"

	"github.com/podstream/podstream/test/devnode"
)

// requireRuntime is set by `make test`: a machine that can't run a test fails it then instead of skipping it.
const requireRuntime = "PODSTREAM_REQUIRE_RUNTIME"

// Need returns the node that start starts. It ends the test, as Lack does, on a machine that can't run its runtime.
func Need(t *testing.T, start func() (*devnode.Node, error)) *devnode.Node {
	t.Helper()
	node, err := start()
	if errors.Is(err, devnode.ErrUnavailable) {
		Lack(t, "%v; `make test` installs what is missing", err)
	}
	if err != nil {
		t.Fatal(err)
	}
	return node
}

// Lack ends a test that this machine can't run: as failed if every test has to run, as skipped otherwise.
func Lack(t *testing.T, format string, args ...any) {
	t.Helper()
	if os.Getenv(requireRuntime) != "" {
		t.Fatalf(format, args...)
	}
	t.Skipf(format, args...)
}
