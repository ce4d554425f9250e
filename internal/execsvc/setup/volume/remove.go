package volume

import (
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/podstream/podstream/internal/openfile"
)

// removeBatch is the number of names of a directory that are read at once.
const removeBatch = 256

// maxDepth is the maximum number of nested directories that are open at once. A container can nest more than this
// process can open.
const maxDepth = 64

// removeTree removes the directory and everything below it on the same mount. It works on open directories, one name
// at a time, so neither a link nor a concurrent mount leads it elsewhere: it detects even a bind mount of the same
// file system by its mount ID, returns ErrMounted, and leaves it as it is. The directories in kept are removed only if
// they are empty.
func removeTree(dir string, kept ...string) error {
	at := strings.LastIndexByte(dir, '/')
	parent, err := unix.Open(dir[:at+1], unix.O_DIRECTORY|unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return fmt.Errorf("open %s: %w", dir[:at+1], err)
	}
	defer func() { _ = unix.Close(parent) }()
	mount, err := openfile.Mount(parent)
	if err != nil {
		return err
	}
	r := &removal{mount: mount, kept: kept}
	return r.remove(parent, dir[at+1:], dir, 0)
}

// removal is one call of removeTree.
type removal struct {
	// mount is the mount ID that all of the tree must have.
	mount string
	// kept are the paths of directories whose content isn't removed.
	kept []string
	// top is the tree's own directory, while it is emptied. Directories that are too deep are moved there; moved
	// counts them.
	top, moved int
}

// remove removes the entry name of the open directory parent, which is depth levels below the top. path is for
// messages.
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
	if !slices.Contains(r.kept, path) {
		if err := r.empty(parent, name, path, depth); err != nil {
			return err
		}
	}
	err = unix.Unlinkat(parent, name, unix.AT_REMOVEDIR)
	if err != nil && !errors.Is(err, unix.ENOENT) {
		return fmt.Errorf("remove %s: %w", path, err)
	}
	return nil
}

// moveUp moves a directory to the top, whose listing finds it again.
func (r *removal) moveUp(parent int, name, path string) error {
	for {
		r.moved++
		err := unix.Renameat(parent, name, r.top, fmt.Sprintf("deep-%d", r.moved))
		switch {
		case err == nil, errors.Is(err, unix.ENOENT):
			return nil
		case errors.Is(err, unix.EBUSY):
			return fmt.Errorf("%s: %w", path, ErrMounted)
		case errors.Is(err, unix.ENOTEMPTY), errors.Is(err, unix.EEXIST), errors.Is(err, unix.ENOTDIR): // the name is taken
		default:
			return fmt.Errorf("move %s: %w", path, err)
		}
	}
}

// empty removes the content of the directory.
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
	on, err := openfile.Mount(fd)
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
		// Removals during the listing may have skipped names: start again.
		if _, err := dir.Seek(0, io.SeekStart); err != nil {
			return fmt.Errorf("list %s again: %w", path, err)
		}
	}
}
