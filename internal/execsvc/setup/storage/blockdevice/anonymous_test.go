package blockdevice

import (
	"fmt"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/podstream/podstream/internal/mounttable"
	"github.com/podstream/podstream/internal/roottest"
)

// TestAnonymousNumber: a file system of several disks has a number of its own, and names them. One that needs no disk may name any.
func TestAnonymousNumber(t *testing.T) {
	roottest.Need(t, "mknod")
	node := fmt.Sprintf("/dev/blockdevice-test-%d", unix.Getpid())
	if err := unix.Mknod(node, unix.S_IFBLK|0o600, int(unix.Mkdev(511, 7))); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = unix.Unlink(node) })
	elsewhere := filepath.Join(t.TempDir(), "disk")
	if err := unix.Mknod(elsewhere, unix.S_IFBLK|0o600, int(unix.Mkdev(511, 7))); err != nil {
		t.Fatal(err)
	}
	for _, tc := range []struct {
		mount mounttable.Mount
		want  bool
	}{
		{mounttable.Mount{Major: 511, Minor: 7, Type: "ext4", Source: "/dev/x"}, true},
		{mounttable.Mount{Minor: 40, Type: "bcachefs", Source: node}, true},
		{mounttable.Mount{Minor: 40, Type: "bcachefs", Source: "/dev/null:" + node}, true},
		{mounttable.Mount{Minor: 40, Type: "btrfs", Source: node}, true},
		{mounttable.Mount{Minor: 40, Type: "bcachefs", Source: "/dev/null"}, false},
		{mounttable.Mount{Minor: 40, Type: "bcachefs", Source: elsewhere}, false},
		{mounttable.Mount{Minor: 40, Type: "tmpfs", Source: node}, false},
		{mounttable.Mount{Major: 8, Minor: 1, Type: "ext4", Source: node}, false},
	} {
		if got := IsOf(&tc.mount, "511:7"); got != tc.want {
			t.Errorf("%+v: %v", tc.mount, got)
		}
	}
}
