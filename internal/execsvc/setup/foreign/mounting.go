package foreign

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sys/unix"
	"k8s.io/mount-utils"
	"k8s.io/utils/exec"

	"github.com/podstream/podstream/internal/execsvc/setup/storage/blockdevice"
	"github.com/podstream/podstream/internal/mounttable"
)

// maxStacked bounds the mounts at one mount point that are unmounted. More exist only if another process keeps mounting.
const maxStacked = 32

// errStacked is the error of a mount point with more.
var errStacked = errors.New("another process keeps mounting there")

// do mounts, unless the target has a mount already. A mount whose server is gone is unmounted first. One that is found may be what a
// helper left that was killed, so it is completed.
func (m *Mount) do() error {
	mounted, err := mountsAt(m.Target)
	if err != nil {
		return unchanged(err)
	}
	if len(mounted) > 0 {
		if err := m.isDevice(&mounted[len(mounted)-1]); err != nil {
			return err
		}
		if _, err = look(m.Target); err == nil {
			return m.complete(&mounted[len(mounted)-1])
		}
		if !IsCorrupted(err) {
			return err
		}
		if err := (&Unmount{Target: m.Target}).do(); err != nil {
			return fmt.Errorf("unmount the file system, whose server is gone: %w", err)
		}
	}
	if is, err := os.Lstat(m.Target); err != nil || !is.IsDir() {
		return unchanged(cmp.Or(err, fmt.Errorf("the mount point %s isn't a directory; nothing is mounted there", m.Target)))
	}
	failed := m.mount()
	if failed == nil {
		if mounted, err = mountsAt(m.Target); err != nil {
			return err
		}
		failed = fmt.Errorf("mount succeeded, and nothing is mounted at %s: is bg among its options?", m.Target)
		if len(mounted) > 0 {
			failed = m.isDevice(&mounted[len(mounted)-1])
		}
		if failed == nil {
			return nil
		}
	}
	// mount(8) may have failed after the mount.
	if err := (&Unmount{Target: m.Target}).do(); err != nil {
		return errors.Join(failed, err)
	}
	return unchanged(failed)
}

func (m *Mount) mount() error {
	if m.Disk != nil {
		return m.Disk.Mount(m.Target, m.Type, m.Options)
	}
	mounter := mount.New("")
	if m.Format {
		if err := m.checkType(); err != nil {
			return err
		}
		return mount.NewSafeFormatAndMount(mounter, exec.New()).FormatAndMount(m.Source, m.Target, m.Type, m.Options)
	}
	return mounter.MountSensitiveWithoutSystemd(m.Source, m.Target, m.Type, m.Options, nil)
}

// checkType returns an error unless the block device can be mounted as the type. A blank one can.
func (m *Mount) checkType() error {
	if err := blockdevice.CheckFSType(m.Type); err != nil {
		return err
	}
	content, err := mount.NewSafeFormatAndMount(mount.New(""), exec.New()).GetDiskFormat(m.Source)
	if err != nil || content == "" {
		return err
	}
	return blockdevice.CheckContent(content, m.Type)
}

// isDevice returns an error if the mount isn't of the block device of the job, if it has one.
func (m *Mount) isDevice(is *mounttable.Mount) error {
	name, number := m.Source, ""
	switch {
	case m.Disk != nil:
		name, number = m.Disk.Path(), m.Disk.Number
	case m.Format:
		n, err := blockdevice.NumberOf(m.Source)
		if err != nil {
			return err
		}
		number = n.String()
	}
	if number == "" || blockdevice.IsOf(is, number) {
		return nil
	}
	return fmt.Errorf("%s (%d:%d, %s) is mounted at %s, and not the disk %s (%s)", is.Source, is.Major, is.Minor, is.Type, m.Target, name, number)
}

// keptOptions are the options of a bind mount that it has from its source, and that a remount would drop.
var keptOptions = []string{"ro", "nosuid", "nodev", "noexec", "nosymfollow"}

// complete gives the options to a bind mount that is mounted: the kernel takes them in a second call, a remount, before which the helper
// may have been killed. To repeat it changes nothing if they are right, and disturbs no process that uses the mount. Another
// mount has its options from the beginning.
func (m *Mount) complete(is *mounttable.Mount) error {
	given := slices.DeleteFunc(slices.Clone(m.Options), func(o string) bool { return o == bindOption || o == remountOption })
	if !slices.Contains(m.Options, bindOption) || len(given) == 0 {
		return nil
	}
	kept := slices.DeleteFunc(slices.Clone(is.Options), func(o string) bool { return !slices.Contains(keptOptions, o) })
	args := mount.MakeMountArgs(m.Source, m.Target, "", slices.Concat([]string{bindOption, remountOption}, given, kept))
	if out, err := exec.New().Command("mount", args...).CombinedOutput(); err != nil {
		return fmt.Errorf("give its options to the mount at %s: mount %s: %w: %s", m.Target, strings.Join(args, " "), err, bytes.TrimSpace(out))
	}
	return nil
}

// The options of mount(8) for a bind mount.
const bindOption, remountOption = "bind", "remount"

// unchanged marks the error of a mount after which nothing is mounted.
func unchanged(err error) error {
	errno, _ := errors.AsType[unix.Errno](err)
	return &Error{Text: err.Error(), Errno: errno, Unchanged: true}
}

// do unmounts. It asks no file system but by the system call.
func (u *Unmount) do() error {
	for range maxStacked {
		mounted, err := mountsAt(u.Target)
		if err != nil || len(mounted) == 0 {
			return err
		}
		flags := unix.UMOUNT_NOFOLLOW
		if u.Force {
			flags |= unix.MNT_FORCE
		}
		if err := unix.Unmount(u.Target, flags); err != nil && !errors.Is(err, unix.EINVAL) {
			return wrap("unmount", u.Target, err)
		}
	}
	return wrap("unmount", u.Target, errStacked)
}

// mountsAt returns the mounts at that path. Links in the path are followed, but not the last name.
func mountsAt(path string) ([]mounttable.Mount, error) {
	above, err := filepath.EvalSymlinks(filepath.Dir(path))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	path = filepath.Join(above, filepath.Base(path))
	return mounttable.Select(func(m *mounttable.Mount) bool { return m.Point == path })
}

// kernel unmounts by the system call. Package subpath needs nothing else.
type kernel struct{ mount.Interface }

// Unmount is part of mount.Interface. It doesn't follow a link.
func (kernel) Unmount(target string) error {
	return wrap("unmount", target, unix.Unmount(target, unix.UMOUNT_NOFOLLOW))
}
