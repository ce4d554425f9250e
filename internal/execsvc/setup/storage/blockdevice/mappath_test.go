package blockdevice

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/podstream/podstream/internal/roottest"
)

// TestPathChanges: a device to which the path doesn't lead any more, when it is open, isn't held: another disk may have got its number.
func TestPathChanges(t *testing.T) {
	device, other := roottest.LoopDevice(t), roottest.LoopDevice(t)
	base := t.TempDir()
	path := filepath.Join(base, "by-id")
	must(t, os.Symlink(device, path))
	tag := fmt.Sprintf("changes-%d", os.Getpid())
	t.Cleanup(func() { _ = Release(tag) })
	was := sysNumbers
	sysNumbers = t.TempDir()
	t.Cleanup(func() { sysNumbers = was })
	first := uevent(t, device)
	must(t, unix.Mkfifo(first, 0o600)) // It is read when the path has been looked at.
	must(t, os.WriteFile(uevent(t, other), []byte("DEVNAME="+filepath.Base(other)+"\n"), 0o600))
	done := make(chan error, 1)
	go func() { done <- MapPath(path, tag, []Place{{Base: base, Dir: ".", Name: "link"}}) }()
	reads, err := os.OpenFile(first, os.O_WRONLY, 0)
	must(t, err)
	must(t, os.Remove(path), os.Symlink(other, path))
	_, err = reads.WriteString("DEVNAME=" + filepath.Base(device) + "\n")
	must(t, err, reads.Close())
	if err := <-done; err == nil || !strings.Contains(err.Error(), "when it was looked at") {
		t.Errorf("error %v", err)
	}
	if n, is, err := Held(tag); is || err != nil {
		t.Errorf("%v is held (%v)", n, err)
	}
	if _, err := os.Lstat(filepath.Join(base, "link")); err == nil {
		t.Error("it is linked")
	}
}

// uevent makes the directory of a device in sysfs, and returns the path of its file with the name.
func uevent(t *testing.T, device string) string {
	t.Helper()
	var st unix.Stat_t
	must(t, unix.Stat(device, &st))
	dir := filepath.Join(sysNumbers, Number{unix.Major(st.Rdev), unix.Minor(st.Rdev)}.String())
	must(t, os.Mkdir(dir, 0o750))
	return filepath.Join(dir, "uevent")
}
