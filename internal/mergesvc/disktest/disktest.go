// Package disktest makes disks that are full or small, for tests of what podconfigd does then. Only tests import it.
package disktest

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"
)

// NeedRoot skips a test that mounts, unless root runs it; under `make test`, which has to run all, it fails.
func NeedRoot(t *testing.T) {
	t.Helper()
	switch {
	case os.Geteuid() == 0:
	case os.Getenv("PODSTREAM_REQUIRE_RUNTIME") != "":
		t.Fatal("mounts need root")
	default:
		t.Skip("mounts need root: sudo make test")
	}
}

// Small is a file system of half a MiB.
func Small(t *testing.T) (dir string) {
	t.Helper()
	NeedRoot(t)
	dir = t.TempDir()
	if err := unix.Mount("podstream-test", dir, "tmpfs", 0, "size=512k"); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = unix.Unmount(dir, unix.MNT_DETACH) })
	return dir
}

// FillUp leaves no room, until free is called.
func FillUp(t *testing.T, dir string) (free func()) {
	t.Helper()
	ballast := filepath.Join(dir, "ballast")
	f, err := os.Create(ballast)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	for page := make([]byte, os.Getpagesize()); err == nil; {
		_, err = f.Write(page)
	}
	if !errors.Is(err, unix.ENOSPC) {
		t.Fatalf("filling up the disk ends with %v; want ENOSPC", err)
	}
	return func() {
		if err := os.Remove(ballast); err != nil {
			t.Fatal(err)
		}
	}
}
