package e2e

import (
	"os"
	"testing"
)

// needsRoot ends the test unless root runs it. Both texts are for the message: the reason, and the name to run it by.
func needsRoot(t *testing.T, what, name string) {
	t.Helper()
	if os.Geteuid() != 0 {
		lacks(t, "it takes root to %s; run: sudo go test -run %s ./test/e2e", what, name)
	}
}

// lacks ends a test that this machine can't run: as failed if every test has to run, as skipped otherwise.
func lacks(t *testing.T, format string, args ...any) {
	t.Helper()
	if os.Getenv(requireRuntime) != "" {
		t.Fatalf(format, args...)
	}
	t.Skipf(format, args...)
}
