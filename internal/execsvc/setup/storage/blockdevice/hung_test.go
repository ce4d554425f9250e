package blockdevice

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/podstream/podstream/internal/execsvc/setup/foreign/fusetest"
	"github.com/podstream/podstream/internal/roottest"
)

// TestHungLoopDevice: a device is held, found and released while the file system of another program's loop device hangs, and after it
// has failed.
func TestHungLoopDevice(t *testing.T) {
	device := roottest.LoopDevice(t)
	server, file := fusetest.File(t, t.TempDir())
	out, err := exec.CommandContext(t.Context(), "losetup", "--find", "--show", "--read-only", file).Output()
	roottest.Able(t, err)
	other := strings.TrimSpace(string(out))
	t.Cleanup(func() {
		server.Die()
		_ = exec.Command("losetup", "--detach", other).Run()
	})
	base := t.TempDir()
	must(t, os.Symlink(device, filepath.Join(base, "u")))
	d, err := At(open(t, base), "u")
	must(t, err)
	defer d.Close()
	tag := fmt.Sprintf("hung-%d", os.Getpid())
	t.Cleanup(func() {
		server.Die()
		_ = Release(tag)
	})
	use := func() error {
		if err := d.Hold(tag); err != nil {
			return err
		}
		if n, is, err := Held(tag); n != d.Number || !is || err != nil {
			return fmt.Errorf("held: %v, %v, %w", n, is, err)
		}
		return Release(tag)
	}
	server.Hang()
	done := make(chan error, 1)
	go func() { done <- use() }()
	select {
	case err := <-done:
		must(t, err)
	case <-server.Asked():
		server.Die()
		<-done
		t.Fatal("the server of another program's loop device is asked, and doesn't answer")
	}
	server.Die()
	must(t, use())
}
