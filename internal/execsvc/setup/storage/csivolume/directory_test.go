package csivolume

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/podstream/podstream/internal/roottest"
)

// kernels runs the test on this kernel, and as if it had no openat2.
func kernels(t *testing.T, test func(*testing.T)) {
	t.Run("openat2", test)
	t.Run("old kernel", func(t *testing.T) {
		openat2 = func(int, string, *unix.OpenHow) (int, error) { return -1, unix.ENOSYS }
		defer func() { openat2 = unix.Openat2 }()
		test(t)
	})
}

// TestLook: a mount point is recognised without a look at what is mounted, be it a directory or a file.
func TestLook(t *testing.T) {
	roottest.Need(t, "mount")
	kernels(t, func(t *testing.T) {
		base := t.TempDir()
		path := func(name string) string { return filepath.Join(base, name) }
		must(t, os.Mkdir(path("directory"), 0o700), os.Mkdir(path("mounted"), 0o700), os.WriteFile(path("file"), nil, 0o600),
			os.WriteFile(path("mounted file"), nil, 0o600), os.Symlink("directory", path("link")))
		for from, to := range map[string]string{"directory": "mounted", "file": "mounted file"} {
			must(t, unix.Mount(path(from), path(to), "", unix.MS_BIND, ""))
			t.Cleanup(func() { must(t, unix.Unmount(path(to), 0)) })
		}
		dir, err := os.Open(base)
		must(t, err)
		defer dir.Close()
		for name, want := range map[string]struct {
			found
			err error
		}{
			"directory": {found: directory}, "mounted": {found: mounted}, "mounted file": {found: mounted}, "missing": {found: nothing},
			"file": {err: errFile}, "link": {err: errLink},
		} {
			if got, err := look(dir, name); got != want.found || !errors.Is(err, want.err) {
				t.Errorf("%s: %d, %v; want %d, %v", name, got, err, want.found, want.err)
			}
		}
	})
}
