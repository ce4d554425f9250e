package volume

import (
	"os"
	"slices"
	"strings"

	"golang.org/x/sys/unix"
	"k8s.io/mount-utils"

	"github.com/podstream/podstream/internal/mounttable"
)

// kernel is the node's mounter, with system calls for mounting and unmounting: running mount(8) or umount(8) takes
// milliseconds each time, and a pod can have a dozen volumes in memory.
type kernel struct{ mount.Interface }

// MountSensitiveWithoutSystemd is part of mount.Interface. The options must be the file system's own; those of
// mount(8) ("ro", "bind", "_netdev") aren't supported.
func (kernel) MountSensitiveWithoutSystemd(source, target, fstype string, options, sensitive []string) error {
	if err := unix.Mount(source, target, fstype, 0, strings.Join(slices.Concat(options, sensitive), ",")); err != nil {
		return &os.PathError{Op: "mount", Path: target, Err: err}
	}
	return nil
}

// List is part of mount.Interface. Its paths have no escapes.
func (kernel) List() ([]mount.MountPoint, error) {
	mounts, err := mounttable.Read()
	if err != nil {
		return nil, err
	}
	all := make([]mount.MountPoint, 0, len(mounts))
	for i := range mounts {
		m := &mounts[i]
		all = append(all, mount.MountPoint{Device: m.Source, Path: m.Point, Type: m.Type, Opts: slices.Concat(m.Options, m.FSOptions)})
	}
	return all, nil
}

// Unmount is part of mount.Interface. It does not follow a link.
func (kernel) Unmount(target string) error {
	if err := unix.Unmount(target, unix.UMOUNT_NOFOLLOW); err != nil {
		return &os.PathError{Op: "unmount", Path: target, Err: err}
	}
	return nil
}
