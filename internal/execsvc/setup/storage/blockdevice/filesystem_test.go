package blockdevice

import (
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/podstream/podstream/internal/mounttable"
	"github.com/podstream/podstream/internal/roottest"
)

// TestFSType: only types that are on a disk are mounted, and only of the disk's own content.
func TestFSType(t *testing.T) {
	for fsType, want := range map[string]bool{
		"ext4": true, "xfs": true, "auto": true, "proc": false, "sysfs": false, "tmpfs": false, "devtmpfs": false, "": false,
		"../x": false, "-x": false, "fuse.x": false, "proc,ext4": false,
	} {
		if err := CheckFSType(fsType); (err == nil) != want {
			t.Errorf("%q: %v", fsType, err)
		}
	}
	for _, tc := range []struct {
		content, fsType string
		want            bool
	}{
		{"ext4", "ext4", true}, {"ext2", "ext4", true}, {"vfat", "msdos", true}, {"xfs", "auto", true},
		{"ext4", "xfs", false}, {"ext4", "nfs4", false}, {"LVM2_member", "ext4", false}, {"ntfs", "ext4", false},
	} {
		if err := CheckContent(tc.content, tc.fsType); (err == nil) != tc.want {
			t.Errorf("%+v: %v", tc, err)
		}
	}
}

// TestIsOf: a mount without a disk's number is a disk's only if it is btrfs, whatever its source is.
func TestIsOf(t *testing.T) {
	roottest.Need(t, "making devices")
	device := filepath.Join(t.TempDir(), "disk")
	roottest.Able(t, unix.Mknod(device, unix.S_IFBLK|0o600, int(unix.Mkdev(7, 250))))
	other := device + "-file"
	if err := os.WriteFile(other, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, tc := range []struct {
		m    mounttable.Mount
		want bool
	}{
		{mounttable.Mount{Major: 7, Minor: 250, Type: "ext4", Source: "/dev/root"}, true},
		{mounttable.Mount{Major: 7, Minor: 251, Type: "ext4", Source: device}, false},
		{mounttable.Mount{Minor: 40, Type: "btrfs", Source: device}, true},
		{mounttable.Mount{Minor: 40, Type: "btrfs", Source: other}, false},
		{mounttable.Mount{Minor: 40, Type: "proc", Source: device}, false},
		{mounttable.Mount{Major: 7, Minor: 251, Type: "btrfs", Source: device}, false},
	} {
		if is := IsOf(&tc.m, "7:250"); is != tc.want {
			t.Errorf("%+v: %v", tc.m, is)
		}
	}
}
