// Package roottest is for tests that need root. Only tests import it.
package roottest

import (
	"os"
	"testing"
)

// Need skips the test unless it runs as root; with PODSTREAM_REQUIRE_RUNTIME, which `make test` sets, the test fails instead.
// why names the operation that needs root, such as "mounting".
func Need(t testing.TB, why string) {
	t.Helper()
	switch {
	case os.Geteuid() == 0:
	case os.Getenv("PODSTREAM_REQUIRE_RUNTIME") != "":
		t.Fatalf("%s needs root", why)
	default:
		t.Skipf("%s needs root: sudo make test", why)
	}
}

// Able skips the test if err says why the machine can't do what the test needs; with PODSTREAM_REQUIRE_RUNTIME the test fails
// instead.
func Able(t testing.TB, err error) {
	t.Helper()
	switch {
	case err == nil:
	case os.Getenv("PODSTREAM_REQUIRE_RUNTIME") != "":
		t.Fatal(err)
	default:
		t.Skip(err)
	}
}
