//go:build failpoints

package failpoint_test

import (
	"errors"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"

	"github.com/podstream/podstream/internal/failpoint"
)

// TestEnvironmentDies starts this test again as a process that dies when it reaches a point the second time.
func TestEnvironmentDies(t *testing.T) {
	if os.Getenv(failpoint.DieAt) != "" {
		failpoint.Reached(failpoint.AfterStore)
		failpoint.Reached(failpoint.BeforeStore)
		os.Stderr.WriteString("once\n")
		failpoint.Reached(failpoint.AfterStore)
		os.Stderr.WriteString("survived\n")
		return
	}
	for text, want := range map[string]string{
		string(failpoint.AfterStore) + ":2": "once\nfailpoint: dying at store/commit/after\n",
		"store/commit/aftr":                 "names no point",
		string(failpoint.AfterStore) + ":x": "names no point",
	} {
		cmd := exec.Command(os.Args[0], "-test.run=^TestEnvironmentDies$")
		cmd.Env = append(os.Environ(), failpoint.DieAt+"="+text)
		out, err := cmd.CombinedOutput()
		exit, ok := errors.AsType[*exec.ExitError](err)
		if !ok || !strings.Contains(string(out), want) {
			t.Errorf("%s=%s: %v\n%s", failpoint.DieAt, text, err, out)
			continue
		}
		if killed := exit.Sys().(syscall.WaitStatus).Signal() == syscall.SIGKILL; killed != strings.Contains(want, "dying") {
			t.Errorf("%s=%s: ended by %v", failpoint.DieAt, text, exit)
		}
	}
}
