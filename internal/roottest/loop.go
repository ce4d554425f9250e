package roottest

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// LoopDevice makes a loop device of 1 MiB for a file, until the test's end, and returns its path.
func LoopDevice(t *testing.T) string {
	t.Helper()
	Need(t, "loop devices")
	image := filepath.Join(t.TempDir(), "image")
	if err := os.WriteFile(image, make([]byte, 1<<20), 0o600); err != nil {
		t.Fatal(err)
	}
	out, err := exec.CommandContext(t.Context(), "losetup", "--find", "--show", image).Output()
	Able(t, err)
	device := strings.TrimSpace(string(out))
	t.Cleanup(func() { _ = exec.Command("losetup", "--detach", device).Run() }) //nolint:noctx // The test's context has ended.
	return device
}
