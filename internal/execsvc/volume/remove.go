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

// maxDepth is how many directories in each other are open at once. A container can have made more of them than this process can open.
const maxDepth = 64

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
	r := &removal{mount: mount}
	return r.remove(parent, dir[at+1:], dir, 0)
}

// removal is one removeTree.
type removal struct {
	// mount is the one that all of the tree has to be on.
	mount string
	// top is the tree's own directory, while it is emptied. What lies too deep is moved there; moved counts it.
	top, moved int
}

// remove removes what is called name in the open directory, that many directories below the top. path is for messages.
func (r *removal) remove(parent int, name, path string, depth int) error {
	err := unix.Unlinkat(parent, name, 0)
	switch {
	case err == nil, errors.Is(err, unix.ENOENT):
		return nil
	case errors.Is(err, unix.EBUSY):
		return fmt.Errorf("%s: %w", path, ErrMounted)
	case !errors.Is(err, unix.EISDIR):
		return fmt.Errorf("remove %s: %w", path, err)
	case depth == maxDepth:
		return r.moveUp(parent, name, path)
	}
	if err := r.empty(parent, name, path, depth); err != nil {
		return err
	}
	err = unix.Unlinkat(parent, name, unix.AT_REMOVEDIR)
	if err != nil && !errors.Is(err, unix.ENOENT) {
		return fmt.Errorf("remove %s: %w", path, err)
	}
	return nil
}

// moveUp moves a directory to the top, where it is found again.
func (r *removal) moveUp(parent int, name, path string) error {
	for {
		r.moved++
		err := unix.Renameat(parent, name, r.top, fmt.Sprintf("deep-%d", r.moved))
		switch {
		case err == nil, errors.Is(err, unix.ENOENT):
			return nil
		case errors.Is(err, unix.EBUSY):
			return fmt.Errorf("%s: %w", path, ErrMounted)
		case errors.Is(err, unix.ENOTEMPTY), errors.Is(err, unix.EEXIST), errors.Is(err, unix.ENOTDIR): // something else is called so
		default:
			return fmt.Errorf("move %s: %w", path, err)
		}
	}
}

// empty removes what is in the directory called name.
func (r *removal) empty(parent int, name, path string, depth int) error {
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
	if on != r.mount {
		return fmt.Errorf("%s: %w", path, ErrMounted)
	}
	if depth == 0 {
		r.top = fd
	}
	for {
		names, err := dir.Readdirnames(removeBatch)
		for _, child := range names {
			if err := r.remove(fd, child, path+"/"+child, depth+1); err != nil {
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
