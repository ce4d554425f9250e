package file

import (
	"errors"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/podstream/podstream/internal/roottest"
)

// TestUnmounted: a directory that is empty on another file system is an error until it has manifests or is mounted
// again; one that is empty on its own file system has no pods.
func TestUnmounted(t *testing.T) {
	t.Parallel()
	t.Run("another device", func(t *testing.T) {
		t.Parallel()
		testUnmounted(t, func(r *root, by int) { r.stamp.dev += uint64(by) })
	})
	t.Run("another mount of one device", func(t *testing.T) {
		t.Parallel()
		testUnmounted(t, func(r *root, by int) {
			number, err := strconv.Atoi(r.mount)
			must(t, err)
			r.mount = strconv.Itoa(number + by)
		})
	})
}

func testUnmounted(t *testing.T, change func(r *root, by int)) {
	dir := t.TempDir()
	a, readme := filepath.Join(dir, "a.yaml"), filepath.Join(dir, "NOT-MOUNTED")
	write(t, a, pod("a", "v1"))
	s := steps(dir)
	// move changes the loop's record of the file system, or mount, on which it last saw the directory, by this
	// much.
	move := func(by int) { change(&s.root, by) }
	check := func(when string, want ...string) {
		t.Helper()
		s.relistAt = s.now
		s.after(0)
		// A path that returns has a quiet period, and then a removed file has one.
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
	move(-1)
	check("back, and empty")
	move(1)
	check("nothing was there before")
}

// TestUnmount: the same with a real mount, of another file system or of the same one.
func TestUnmount(t *testing.T) {
	roottest.Need(t, "mounting")
	t.Run("tmpfs", func(t *testing.T) {
		testUnmount(t, func(dir string) { must(t, unix.Mount("podstream-test", dir, "tmpfs", 0, "size=1m")) })
	})
	t.Run("bind", func(t *testing.T) {
		from := t.TempDir()
		testUnmount(t, func(dir string) { must(t, unix.Mount(from, dir, "", unix.MS_BIND, "")) })
	})
}

func testUnmount(t *testing.T, mountAt func(dir string)) {
	dir := filepath.Join(t.TempDir(), "manifests")
	must(t, os.Mkdir(dir, 0o755))
	mount := func() { mountAt(dir) }
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
	set := r.expect("error")
	if strings.Contains(set.Err.Error(), "was replaced while it was read") {
		// The directory was being listed when it was unmounted.
		set = r.expect("error")
	}
	if !errors.Is(set.Err, errUnmounted) {
		t.Errorf("Err %v, want %v", set.Err, errUnmounted)
	}
	mount()
	write(t, filepath.Join(dir, "a.yaml"), pod("a", "v2"))
	r.await("a.yaml a=v2")
	unmount()
	r.expect("error")
	place(t, filepath.Join(dir, "b.yaml"), pod("b", "v1"))
	r.await("b.yaml b=v1")
}
