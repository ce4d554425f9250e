//go:build failpoints

package failpoint_test

import (
	"os"
	"os/exec"
	"testing"

	"github.com/podstream/podstream/internal/failpoint"
)

// TestEnable: a fault is on from the first Enable to the last disable, and no other fault is.
func TestEnable(t *testing.T) {
	first, second := failpoint.Enable(failpoint.SkipRevision), failpoint.Enable(failpoint.SkipRevision)
	if !failpoint.Active(failpoint.SkipRevision) || failpoint.Active(failpoint.DropLeave) {
		t.Error("want SkipRevision active, and DropLeave not")
	}
	first()
	first()
	if !failpoint.Active(failpoint.SkipRevision) {
		t.Error("one of two who enabled it has disabled it, twice; want it active")
	}
	second()
	if failpoint.Active(failpoint.SkipRevision) {
		t.Error("all have disabled it; want it inactive")
	}
}

// TestUnknownName: a misspelt fault panics.
func TestUnknownName(t *testing.T) {
	defer func() {
		if recover() == nil {
			t.Error("Enable of a fault that doesn't exist went well; want a panic")
		}
	}()
	failpoint.Enable("skip-revisions")
}

// TestEnvironment starts this test again as a process with two faults in its environment.
func TestEnvironment(t *testing.T) {
	if os.Getenv(failpoint.Variable) != "" {
		for _, n := range failpoint.Names() {
			if want := n == failpoint.EarlyCursor || n == failpoint.SkipCommit; failpoint.Active(n) != want {
				t.Errorf("fault %s: active=%v; want %v", n, !want, want)
			}
		}
		return
	}
	cmd := exec.Command(os.Args[0], "-test.run=^TestEnvironment$", "-test.v")
	cmd.Env = append(os.Environ(), failpoint.Variable+"=early-cursor,skip-commit")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Errorf("the process with faults in its environment: %v\n%s", err, out)
	}
}
