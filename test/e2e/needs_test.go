package e2e

import (
	"os"
	"testing"
)

// needsRoot ends the test unless root runs it. Its message has the reason and the name of the test.
func needsRoot(t *testing.T, what, name string) {
	t.Helper()
	if os.Geteuid() != 0 {
		lacks(t, "root is needed to %s; run: sudo go test -run %s ./test/e2e", what, name)
	}
}

// lacks ends a test that this machine can't run. The test fails if every test has to run, and is skipped
// otherwise.
func lacks(t *testing.T, format string, args ...any) {
	t.Helper()
	if os.Getenv(requireRuntime) != "" {
		t.Fatalf(format, args...)
	}
	t.Skipf(format, args...)
}
