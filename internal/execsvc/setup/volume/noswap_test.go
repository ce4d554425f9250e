package volume

import (
	"os"
	"strings"
	"testing"

	mount "k8s.io/mount-utils"

	"github.com/podstream/podstream/internal/roottest"
)

// TestNoSwap: the kernel's answer is that of a mount.
func TestNoSwap(t *testing.T) {
	roottest.Need(t, "mounting a tmpfs")
	dir, mounter := t.TempDir(), mount.New("")
	err := mounter.MountSensitiveWithoutSystemd("tmpfs", dir, "tmpfs", []string{noSwap}, nil)
	if err == nil {
		defer func() { _ = mounter.Unmount(dir) }()
	}
	if got := NoSwap(); got != (err == nil) {
		t.Errorf("%v; a mount with the option gives %v", got, err)
	}
	mounts, readErr := os.ReadFile("/proc/self/mounts")
	if readErr != nil || err == nil && !strings.Contains(string(mounts), "noswap") {
		t.Errorf("the mount doesn't have the option: %v", readErr)
	}
}
