package volume

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"golang.org/x/sys/unix"
	"k8s.io/mount-utils"

	"github.com/podstream/podstream/internal/roottest"
)

func TestKernel(t *testing.T) {
	roottest.Need(t, "mounting")
	k := kernel{mount.New("")}
	dir := filepath.Join(t.TempDir(), "a dir")
	if err := os.Mkdir(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	unmountAfter(t, dir)

	if err := k.MountSensitiveWithoutSystemd("tmpfs", dir, "tmpfs", []string{"nonesuch"}, nil); !errors.Is(err, unix.EINVAL) {
		t.Errorf("an unknown option: %v", err)
	}
	if err := k.MountSensitiveWithoutSystemd("tmpfs", dir, "tmpfs", []string{"mode=2770", "gid=77"}, []string{"size=1048576"}); err != nil {
		t.Fatal(err)
	}
	fs := fileSystem(t, dir)
	if size := int64(fs.Blocks) * fs.Bsize; fs.Type != unix.TMPFS_MAGIC || size != 1<<20 || permissions(t, dir) != 0o2770 || status(t, dir).Gid != 77 {
		t.Errorf("a file system of type %#x and %d bytes, with mode %o and group %d", fs.Type, size, permissions(t, dir), status(t, dir).Gid)
	}

	link := filepath.Join(t.TempDir(), "link")
	if err := os.Symlink(dir, link); err != nil {
		t.Fatal(err)
	}
	if err := k.Unmount(link); !errors.Is(err, unix.EINVAL) {
		t.Errorf("unmount by a link: %v", err)
	}
	// The name of another mount doesn't keep the list from being read.
	strange := filepath.Join(t.TempDir(), "no\u00a0break\r")
	if err := os.Mkdir(strange, 0o700); err != nil {
		t.Fatal(err)
	}
	unmountAfter(t, strange)
	if err := unix.Mount("no\u00a0break", strange, "tmpfs", 0, ""); err != nil {
		t.Fatal(err)
	}
	all, err := k.List()
	for _, path := range []string{dir, strange} {
		if !slices.ContainsFunc(all, func(mp mount.MountPoint) bool { return mp.Path == path && mp.Type == "tmpfs" }) {
			t.Errorf("%q isn't in the list: %v", path, err)
		}
	}
	if err := k.Unmount(dir); err != nil {
		t.Fatal(err)
	}
	if err := k.Unmount(dir); !errors.Is(err, unix.EINVAL) {
		t.Errorf("unmount what isn't mounted: %v", err)
	}
}
