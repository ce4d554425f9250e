package blockdevice

import (
	"bytes"
	"fmt"
	"os"
	"regexp"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/podstream/podstream/internal/mounttable"
)

var (
	fsTypeName = regexp.MustCompile(`^[a-z][a-z0-9]{0,15}$`)
	// sameDriver are types of file systems that one driver of the kernel mounts, or that blkid names in another way.
	sameDriver = [][]string{{"ext2", "ext3", "ext4"}, {"ntfs", "ntfs3"}, {"vfat", "msdos"}}
)

// btrfs is the file system whose mounts don't have their disk's number, as it may have several disks.
const btrfs = "btrfs"

// CheckFSType returns an error unless a disk can have a file system of the type. For the others, such as proc and tmpfs, mount(8) ignores
// the disk: it mounts what is the node's.
func CheckFSType(fsType string) error {
	if !fsTypeName.MatchString(fsType) {
		return fmt.Errorf("%.100q can't be the type of a file system", fsType)
	}
	known, err := os.ReadFile("/proc/filesystems")
	if err != nil {
		return fmt.Errorf("read which types of file systems need no disk: %w", err)
	}
	for line := range bytes.Lines(known) {
		if fields := bytes.Fields(line); len(fields) == 2 && string(fields[1]) == fsType {
			return fmt.Errorf("a file system of type %s isn't on a disk", fsType)
		}
	}
	return nil
}

// CheckContent returns an error unless the content of a disk, as blkid(8) names it, is a file system that is mounted as the type. For the
// type auto, mount(8) takes that of the content.
func CheckContent(content, fsType string) error {
	if content == fsType || fsType == "auto" || slices.ContainsFunc(sameDriver, func(types []string) bool {
		return slices.Contains(types, content) && slices.Contains(types, fsType)
	}) {
		return nil
	}
	return fmt.Errorf("the content of the disk is %.100q, which can't be mounted as %s", content, fsType)
}

// NumberOf returns the number of the block device at a path, of which links are followed.
func NumberOf(path string) (Number, error) {
	var st unix.Stat_t
	if err := unix.Stat(path, &st); err != nil {
		return Number{}, &os.PathError{Op: "stat", Path: path, Err: err}
	}
	if st.Mode&unix.S_IFMT != unix.S_IFBLK {
		return Number{}, fmt.Errorf("%s isn't a block device", path)
	}
	return Number{unix.Major(st.Rdev), unix.Minor(st.Rdev)}, nil
}

// IsOf reports whether the file system of a mount is on the block device with the number, "8:0". Mounts of btrfs and bcachefs have another
// number, and name their disks.
func IsOf(m *mounttable.Mount, number string) bool {
	if fmt.Sprintf("%d:%d", m.Major, m.Minor) == number {
		return true
	}
	if m.Major != 0 || m.Type != btrfs && !strings.HasPrefix(m.Source, "/dev/") {
		return false // Any name of another source could be asked of a server that hangs.
	}
	names := slices.ContainsFunc(strings.Split(m.Source, ":"), func(source string) bool {
		n, err := NumberOf(source)
		return err == nil && n.String() == number
	})
	return names && (m.Type == btrfs || CheckFSType(m.Type) == nil)
}
