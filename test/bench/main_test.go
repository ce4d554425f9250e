package bench

import (
	"os"
	"testing"

	"go.uber.org/goleak"
)

// TestMain runs the tests or, where a test asked for it, a server: it must be a process of its own, for what it costs
// to be told apart from what its consumers cost.
func TestMain(m *testing.M) {
	if config := os.Getenv(serverEnv); config != "" {
		os.Exit(serverMain(config, os.Stdin, os.Stdout, os.Stderr))
	}
	goleak.VerifyTestMain(m)
}
