package subpath

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
	"k8s.io/mount-utils"

	"github.com/podstream/podstream/internal/mounttable"
	"github.com/podstream/podstream/internal/openfile"
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
	c := &cleaner{mounter: mounter}
	return c.remove(parent, filepath.Base(dir), dir)
}

// cleaner is one CleanUp.
type cleaner struct {
	mounter mount.Interface
	// mounts are those below the top, the resolved path of the first directory, before the last unmount. Nil: they must be read. A mount that has come later is found before anything is removed
	// in it, by its number, and can't be removed itself.
	mounts []mounttable.Mount
	top    string
}

// remove unmounts and removes the entry name of the open directory. path is the same entry for umount(8) and
// messages: no container can change where it leads.
func (c *cleaner) remove(parent int, name, path string) error {
	if err := c.uncover(parent, name, path); err != nil {
		return err
	}
	err := unix.Unlinkat(parent, name, 0)
	if errors.Is(err, unix.EISDIR) {
		if err := c.empty(parent, name, path); err != nil {
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
func (c *cleaner) uncover(parent int, name, path string) error {
	for range maxStacked {
		if covered, err := c.isCovered(parent, name); err != nil || !covered {
			return err
		}
		c.mounts = nil
		if err := unmount(path, c.mounter); err != nil {
			return fmt.Errorf("%s: %w: %w", path, ErrMounted, err)
		}
	}
	return fmt.Errorf("%s: %w", path, ErrMounted)
}

// isCovered reports whether something is mounted at name in the open directory. It asks the table of mounts: to open a share
// of NFS whose server doesn't answer takes until the process is killed, even with O_PATH.
func (c *cleaner) isCovered(parent int, name string) (bool, error) {
	dir, err := os.Readlink(byDescriptor(parent))
	if err != nil {
		return false, fmt.Errorf("get the path in which %s may be mounted: %w", name, err)
	}
	number, err := openfile.Mount(parent)
	if err != nil {
		return false, err
	}
	at := filepath.Join(dir, name)
	if c.top == "" {
		c.top = at
	}
	if c.mounts == nil {
		c.mounts, err = mounttable.Select(func(m *mounttable.Mount) bool { return m.Point == c.top || strings.HasPrefix(m.Point, c.top+"/") })
		if err != nil {
			return false, err
		}
		if c.mounts == nil {
			c.mounts = []mounttable.Mount{}
		}
	}
	// A mount of the same path that another one hides has another parent.
	return slices.ContainsFunc(c.mounts, func(m mounttable.Mount) bool { return m.Point == at && strconv.Itoa(m.Parent) == number }), nil
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
func (c *cleaner) empty(parent int, name, path string) error {
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
		errs = append(errs, c.remove(fd, child, filepath.Join(path, child)))
	}
	return errors.Join(errs...)
}
