package bench

import (
	"os"
	"testing"

	"go.uber.org/goleak"
)

// TestMain runs the tests or, in a process that a test started, a server: it must be a separate process, so
// that its cost can be distinguished from the cost of its consumers.
func TestMain(m *testing.M) {
	if config := os.Getenv(serverEnv); config != "" {
		os.Exit(serverMain(config, os.Stdin, os.Stdout, os.Stderr))
	}
	goleak.VerifyTestMain(m)
}
