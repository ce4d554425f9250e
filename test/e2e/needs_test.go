package e2e

import (
	"os"
	"testing"

	shared "github.com/podstream/podstream/test/rig"
)

// needsRoot ends the test unless root runs it. Its message has the reason and the name of the test.
func needsRoot(t *testing.T, what, name string) {
	t.Helper()
	if os.Geteuid() != 0 {
		shared.Lack(t, "it takes root to %s; run: sudo go test -run %s ./test/e2e", what, name)
	}
}
