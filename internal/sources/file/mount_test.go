package file

import (
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// A directory that is empty on another file system is an error until it has manifests or is back; one that is empty on its
// own has no pods.
func TestUnmounted(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	a, readme := filepath.Join(dir, "a.yaml"), filepath.Join(dir, "NOT-MOUNTED")
	write(t, a, pod("a", "v1"))
	s := steps(dir)
	// move has the loop believe that it last saw the directory on a file system so far from the one where it is.
	move := func(by uint64) { s.root.stamp.dev += by }
	check := func(when string, want ...string) {
		t.Helper()
		s.relistAt = s.now
		s.after(0)
		// A path that comes back has a quiet period, and then a file that went has one.
		s.after(s.QuietPeriod)
		expectShown(t, when, s.after(s.QuietPeriod), want...)
	}
	check("mounted", "a.yaml a=v1")
	move(1)
	check("another mount, with manifests", "a.yaml a=v1")

	must(t, os.Remove(a))
	write(t, readme, "")
	move(1)
	check("unmounted", "error")
	if !errors.Is(s.set.Err, errUnmounted) {
		t.Errorf("Err %v, want %v", s.set.Err, errUnmounted)
	}
	check("still unmounted", "error")
	write(t, a, pod("a", "v2"))
	check("manifests come", "NOT-MOUNTED ignored", "a.yaml a=v2")

	must(t, os.Remove(a))
	must(t, os.Remove(readme))
	move(1)
	check("unmounted again", "error")
	move(^uint64(0))
	check("back, and empty")
	move(1)
	check("nothing was there before")
}

// The same with a real mount.
func TestUnmount(t *testing.T) {
	needRoot(t)
	dir := filepath.Join(t.TempDir(), "manifests")
	must(t, os.Mkdir(dir, 0o755))
	mount := func() { must(t, unix.Mount("podstream-test", dir, "tmpfs", 0, "size=1m")) }
	unmount := func() { must(t, unix.Unmount(dir, unix.MNT_DETACH)) }
	mount()
	t.Cleanup(func() {
		for unix.Unmount(dir, unix.MNT_DETACH) == nil {
		}
	})
	write(t, filepath.Join(dir, "a.yaml"), pod("a", "v1"))
	r := run(t, Config{Path: dir, CheckFrequency: 20 * time.Millisecond, QuietPeriod: slowly})
	r.expect("a.yaml a=v1")
	unmount()
	if set := r.expect("error"); !errors.Is(set.Err, errUnmounted) {
		t.Errorf("Err %v, want %v", set.Err, errUnmounted)
	}
	mount()
	write(t, filepath.Join(dir, "a.yaml"), pod("a", "v2"))
	r.expect("a.yaml a=v2")
	unmount()
	r.expect("error")
	place(t, filepath.Join(dir, "b.yaml"), pod("b", "v1"))
	r.await("b.yaml b=v1")
}

// needRoot skips a test that mounts.
func needRoot(t *testing.T) {
	t.Helper()
	if os.Geteuid() == 0 {
		return
	}
	if os.Getenv("PODSTREAM_REQUIRE_RUNTIME") != "" {
		t.Fatal("mounts need root")
	}
	t.Skip("mounts need root: sudo make test")
}
