package daemon

import (
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/podstream/podstream/internal/roottest"
)

// TestLockReadOnly: on a file system that is read-only, two daemons don't use one directory, and no other user can keep a daemon
// from starting: it can open a directory that is readable for it, and lock that, and can't open the lock file.
func TestLockReadOnly(t *testing.T) {
	roottest.Need(t, "mounting")
	for name, tc := range map[string]struct {
		mode os.FileMode
		file bool
		// twice: another process of this user is refused. free: the daemon starts while the directory is locked.
		twice, free bool
	}{
		"with a lock file":     {0o755, true, true, true},
		"private, without one": {0o700, false, true, false},
		"public, without one":  {0o755, false, false, true},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			if err := unix.Mount("tmpfs", dir, "tmpfs", 0, "size=64k"); err != nil {
				t.Fatal(err)
			}
			defer func() {
				if err := unix.Unmount(dir, 0); err != nil {
					t.Error(err)
				}
			}()
			if err := os.Chmod(dir, tc.mode); err != nil {
				t.Fatal(err)
			}
			if tc.file {
				if err := os.WriteFile(filepath.Join(dir, "lock"), nil, 0o600); err != nil {
					t.Fatal(err)
				}
			}
			if err := unix.Mount("", dir, "", unix.MS_REMOUNT|unix.MS_RDONLY, ""); err != nil {
				t.Fatal(err)
			}
			release, err := LockRootDir(dir)
			if err != nil {
				t.Fatal(err)
			}
			again, err := LockRootDir(dir)
			if (err != nil) != tc.twice {
				t.Errorf("the second one: %v; want it refused: %v", err, tc.twice)
			}
			if err == nil {
				again()
			}
			release()

			stranger, err := os.Open(dir)
			if err != nil {
				t.Fatal(err)
			}
			defer stranger.Close()
			if err := unix.Flock(int(stranger.Fd()), unix.LOCK_EX); err != nil {
				t.Fatal(err)
			}
			release, err = LockRootDir(dir)
			if (err == nil) != tc.free {
				t.Errorf("while the directory is locked: %v; want it to start: %v", err, tc.free)
			}
			if err == nil {
				release()
			}
		})
	}
}
