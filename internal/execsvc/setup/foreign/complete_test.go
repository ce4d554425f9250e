package foreign

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/podstream/podstream/internal/roottest"
)

// bound binds a new directory at another one, as a helper leaves it that is killed before it gives the mount its options.
func bound(t *testing.T) (source, target string) {
	t.Helper()
	roottest.Need(t, "mounting")
	source, target = t.TempDir(), t.TempDir()
	if err := unix.Mount(source, target, "", unix.MS_BIND, ""); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		for unix.Unmount(target, unix.UMOUNT_NOFOLLOW) == nil {
		}
	})
	return source, target
}

// TestMountWithoutOptions: a bind mount whose helper was killed before it had its options gets them from the next helper, once
// more, and keeps what it has from its source. The mount is the same one, also while files are open there.
func TestMountWithoutOptions(t *testing.T) {
	source, target := bound(t)
	if err := unix.Mount("", target, "", unix.MS_REMOUNT|unix.MS_BIND|unix.MS_NODEV, ""); err != nil {
		t.Fatal(err)
	}
	dir, err := os.Open(target)
	if err != nil {
		t.Fatal(err)
	}
	defer dir.Close()
	h, ids := New(Config{}), []int{}
	for range 2 {
		if _, err := h.Do(t.Context(), "disk", Job{Mount: &Mount{
			Source: source, Target: target, Options: []string{"bind", "ro", "noexec", "nosuid", "noatime"},
		}}); err != nil {
			t.Fatal(err)
		}
		mounts, err := mountsAt(target)
		if err != nil || len(mounts) != 1 {
			t.Fatalf("%d mounts, %v", len(mounts), err)
		}
		for _, option := range []string{"ro", "noexec", "nosuid", "noatime", "nodev"} {
			if !slices.Contains(mounts[0].Options, option) {
				t.Errorf("the mount has the options %v, and not %s", mounts[0].Options, option)
			}
		}
		ids = append(ids, mounts[0].ID)
	}
	if ids[0] != ids[1] {
		t.Errorf("it was mounted again: %v", ids)
	}
	h.awaitNone(t)
}

// TestMountStaysWithoutOptions: a mount that can't get its options is an error, and one that says that something is mounted.
func TestMountStaysWithoutOptions(t *testing.T) {
	source, target := bound(t)
	bin := t.TempDir()
	if err := os.WriteFile(filepath.Join(bin, "mount"), []byte("#!/bin/sh\necho not possible; exit 32\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	t.Setenv("PATH", bin+":"+os.Getenv("PATH"))
	h := New(Config{})
	_, err := h.Do(t.Context(), "disk", Job{Mount: &Mount{Source: source, Target: target, Options: []string{"bind", "ro"}}})
	if err == nil || IsUnchanged(err) || !strings.Contains(err.Error(), "not possible") {
		t.Errorf("error %v", err)
	}
	h.awaitNone(t)
}
