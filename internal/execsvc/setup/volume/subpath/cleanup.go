package subpath

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"
	"k8s.io/mount-utils"
)

// ErrMounted is returned when a mount at a target can't be unmounted. Nothing was removed through it; CleanUp can be
// retried.
var ErrMounted = errors.New("something is still mounted there")

// maxStacked is the maximum number of stacked mounts that are unmounted; more exist only if another process keeps
// mounting.
const maxStacked = 32

// CleanUp unmounts everything at or below dir, and removes dir. dir is a pod's volume-subpaths, the directory of a
// volume or container in it, or one target. It follows links on the way to dir, but not dir itself. A missing dir is
// no error. A nil mounter means the node's own.
func CleanUp(dir string, mounter mount.Interface) error {
	if mounter == nil {
		mounter = mount.New("")
	}
	dir = filepath.Clean(dir)
	parent, err := unix.Open(filepath.Dir(dir), unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if errors.Is(err, unix.ENOENT) {
		return nil
	}
	if err != nil {
		return &os.PathError{Op: "open", Path: filepath.Dir(dir), Err: err}
	}
	defer func() { _ = unix.Close(parent) }()
	return remove(parent, filepath.Base(dir), dir, mounter)
}

// remove unmounts and removes the entry name of the open directory. path is the same entry for umount(8) and
// messages: no container can change where it leads.
func remove(parent int, name, path string, mounter mount.Interface) error {
	if err := uncover(parent, name, path, mounter); err != nil {
		return err
	}
	err := unix.Unlinkat(parent, name, 0)
	if errors.Is(err, unix.EISDIR) {
		if err := empty(parent, name, path, mounter); err != nil {
			return err
		}
		err = unix.Unlinkat(parent, name, unix.AT_REMOVEDIR)
	}
	switch {
	case err == nil, errors.Is(err, unix.ENOENT):
		return nil
	case errors.Is(err, unix.EBUSY):
		return fmt.Errorf("%s: %w", path, ErrMounted)
	default:
		return &os.PathError{Op: "remove", Path: path, Err: err}
	}
}

// uncover unmounts all mounts at name, the topmost first.
func uncover(parent int, name, path string, mounter mount.Interface) error {
	for range maxStacked {
		if covered, err := isCovered(parent, name); err != nil || !covered {
			return err
		}
		if err := unmount(path, mounter); err != nil {
			return fmt.Errorf("%s: %w: %w", path, ErrMounted, err)
		}
	}
	return fmt.Errorf("%s: %w", path, ErrMounted)
}

// isCovered reports whether something is mounted at name in the open directory.
func isCovered(parent int, name string) (bool, error) {
	fd, err := unix.Openat(parent, name, unix.O_PATH|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if errors.Is(err, unix.ENOENT) {
		return false, nil
	}
	if err != nil {
		// Only a mount with a dead server can't be opened even with O_PATH.
		return true, nil
	}
	defer func() { _ = unix.Close(fd) }()
	return isMounted(parent, fd)
}

// unmount unmounts path. If that fails, as with inner mounts or while it is in use, it detaches path with its inner
// mounts.
//
// Such inner mounts come from the volume, by propagation. They must not be unmounted one by one: while they are
// shared, that would unmount them in the volume too, and their paths lead through directories that containers can
// change.
func unmount(path string, mounter mount.Interface) error {
	unmounted := mounter.Unmount(path)
	if unmounted == nil {
		return nil
	}
	if err := unix.Mount("", path, "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
		return errors.Join(unmounted, fmt.Errorf("make the mount private: %w", err))
	}
	if err := unix.Unmount(path, unix.MNT_DETACH|unix.UMOUNT_NOFOLLOW); err != nil {
		return errors.Join(unmounted, fmt.Errorf("detach: %w", err))
	}
	return nil
}

// empty removes the content of the directory, if that is on its parent's mount.
func empty(parent int, name, path string, mounter mount.Interface) error {
	fd, err := unix.Openat(parent, name, unix.O_DIRECTORY|unix.O_RDONLY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if errors.Is(err, unix.ENOENT) {
		return nil
	}
	if err != nil {
		return &os.PathError{Op: "open", Path: path, Err: err}
	}
	dir := os.NewFile(uintptr(fd), path)
	defer dir.Close()
	// A mount may have appeared since the check, but it can't come between this descriptor and its entries.
	mounted, err := isMounted(parent, fd)
	if err != nil {
		return err
	}
	if mounted {
		return fmt.Errorf("%s: %w", path, ErrMounted)
	}
	names, err := dir.Readdirnames(-1)
	if err != nil && !errors.Is(err, io.EOF) {
		return fmt.Errorf("list %s: %w", path, err)
	}
	var errs []error
	for _, child := range names {
		errs = append(errs, remove(fd, child, filepath.Join(path, child), mounter))
	}
	return errors.Join(errs...)
}
