package volume

import (
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"golang.org/x/sys/unix"
)

// removeBatch is how many names of a directory are read at once.
const removeBatch = 256

// removeTree removes the directory and everything below it that is on the same mount as it is itself. It works on open
// directories, one name at a time, so neither a link nor a mount that comes meanwhile leads it elsewhere: a bind mount of the
// same file system, too, is found by its mount ID, reported as ErrMounted, and left as it is.
func removeTree(dir string) error {
	at := strings.LastIndexByte(dir, '/')
	parent, err := unix.Open(dir[:at+1], unix.O_DIRECTORY|unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return fmt.Errorf("open %s: %w", dir[:at+1], err)
	}
	defer func() { _ = unix.Close(parent) }()
	mount, err := mountID(parent)
	if err != nil {
		return err
	}
	return removeAt(parent, dir[at+1:], dir, mount)
}

// removeAt removes what is called name in the open directory, if it is on that mount. path is for messages.
func removeAt(parent int, name, path, mount string) error {
	err := unix.Unlinkat(parent, name, 0)
	switch {
	case err == nil, errors.Is(err, unix.ENOENT):
		return nil
	case errors.Is(err, unix.EBUSY):
		return fmt.Errorf("%s: %w", path, ErrMounted)
	case !errors.Is(err, unix.EISDIR):
		return fmt.Errorf("remove %s: %w", path, err)
	}
	if err := emptyAt(parent, name, path, mount); err != nil {
		return err
	}
	err = unix.Unlinkat(parent, name, unix.AT_REMOVEDIR)
	if err != nil && !errors.Is(err, unix.ENOENT) {
		return fmt.Errorf("remove %s: %w", path, err)
	}
	return nil
}

// emptyAt removes what is in the directory called name.
func emptyAt(parent int, name, path, mount string) error {
	fd, err := unix.Openat(parent, name, unix.O_DIRECTORY|unix.O_RDONLY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if errors.Is(err, unix.ENOENT) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("open %s: %w", path, err)
	}
	dir := os.NewFile(uintptr(fd), path)
	defer dir.Close()
	on, err := mountID(fd)
	if err != nil {
		return err
	}
	if on != mount {
		return fmt.Errorf("%s: %w", path, ErrMounted)
	}
	for {
		names, err := dir.Readdirnames(removeBatch)
		for _, child := range names {
			if err := removeAt(fd, child, path+"/"+child, mount); err != nil {
				return err
			}
		}
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("list %s: %w", path, err)
		}
		// Names may be passed over where others were removed while they were read: begin anew.
		if _, err := dir.Seek(0, io.SeekStart); err != nil {
			return fmt.Errorf("list %s again: %w", path, err)
		}
	}
}

// mountID is the kernel's ID of the mount that the open file is on.
func mountID(fd int) (string, error) {
	info, err := os.ReadFile(fmt.Sprintf("/proc/self/fdinfo/%d", fd))
	if err != nil {
		return "", fmt.Errorf("look on which mount a directory is: %w", err)
	}
	for line := range strings.Lines(string(info)) {
		if id, ok := strings.CutPrefix(line, "mnt_id:"); ok {
			return strings.TrimSpace(id), nil
		}
	}
	return "", errors.New("look on which mount a directory is: the kernel doesn't tell")
}
