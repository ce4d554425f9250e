package storage

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"

	"golang.org/x/sys/unix"
)

const (
	// batch is how many names of a directory are read at once.
	batch = 256
	// maxDepth is how deep directories are counted: one file is held open for each.
	maxDepth = 128
	// blockSize is the unit of stat's st_blocks, whatever the file system's.
	blockSize = 512
)

// What can be too much to count.
var (
	errTooMany = errors.New("there are too many files to count")
	errTooDeep = errors.New("directories are too deep to count")
)

// counter adds up what files take, as du does: blocks of the disk, directories too, a file with several names once. A container may change
// all of it meanwhile: directories are opened one in the other, so that no link leads out, and what goes is passed over.
type counter struct {
	ctx context.Context //nolint:containedctx // It is that of one measurement.
	// left is how many more files may be looked at.
	left int

	// dev is the file system that the tree is on, and seen the files of it with several names that were met.
	dev   uint64
	seen  map[uint64]bool
	bytes int64
	deep  bool
}

// tree is what a directory takes with all below it that is on the same file system. One that isn't there takes nothing. After an error it is
// what was found until then.
func (c *counter) tree(dir string) (int64, error) {
	c.seen, c.bytes, c.deep = map[uint64]bool{}, 0, false
	err := c.root(dir)
	if err == nil && c.deep {
		err = errTooDeep
	}
	return c.bytes, err
}

func (c *counter) root(dir string) error {
	fd, err := unix.Open(dir, openFlags, 0)
	if errors.Is(err, unix.ENOENT) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("open %s: %w", dir, err)
	}
	open := os.NewFile(uintptr(fd), dir)
	defer func() { _ = open.Close() }()
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return fmt.Errorf("look at %s: %w", dir, err)
	}
	c.dev = st.Dev
	c.add(&st)
	return c.content(open, 1)
}

const openFlags = unix.O_DIRECTORY | unix.O_RDONLY | unix.O_NOFOLLOW | unix.O_CLOEXEC

func (c *counter) add(st *unix.Stat_t) { c.bytes += st.Blocks * blockSize }

// content counts what is in the open directory.
func (c *counter) content(dir *os.File, depth int) error {
	for {
		if c.ctx.Err() != nil {
			return context.Cause(c.ctx)
		}
		names, err := dir.Readdirnames(batch)
		for _, name := range names {
			if err := c.entry(dir, name, depth); err != nil {
				return err
			}
		}
		if errors.Is(err, io.EOF) || errors.Is(err, unix.ENOENT) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("list %s: %w", dir.Name(), err)
		}
	}
}

// entry counts what has that name in the open directory.
func (c *counter) entry(dir *os.File, name string, depth int) error {
	if c.left--; c.left < 0 {
		return errTooMany
	}
	var st unix.Stat_t
	err := unix.Fstatat(int(dir.Fd()), name, &st, unix.AT_SYMLINK_NOFOLLOW)
	switch {
	case errors.Is(err, unix.ENOENT):
		return nil
	case err != nil:
		return fmt.Errorf("look at %s/%s: %w", dir.Name(), name, err)
	case st.Mode&unix.S_IFMT == unix.S_IFDIR:
		return c.subdirectory(dir, name, depth)
	case st.Nlink > 1 && c.seen[st.Ino]:
		return nil
	case st.Nlink > 1:
		c.seen[st.Ino] = true
	}
	c.add(&st)
	return nil
}

func (c *counter) subdirectory(dir *os.File, name string, depth int) error {
	fd, err := unix.Openat(int(dir.Fd()), name, openFlags, 0)
	switch {
	case errors.Is(err, unix.ENOENT), errors.Is(err, unix.ENOTDIR), errors.Is(err, unix.ELOOP):
		// It is gone, or something else by now.
		return nil
	case err != nil:
		return fmt.Errorf("open %s/%s: %w", dir.Name(), name, err)
	}
	child := os.NewFile(uintptr(fd), dir.Name()+"/"+name)
	defer func() { _ = child.Close() }()
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return fmt.Errorf("look at %s: %w", child.Name(), err)
	}
	if st.Dev != c.dev {
		return nil
	}
	c.add(&st)
	if depth == maxDepth {
		// The rest may still be enough to exceed a limit.
		c.deep = true
		return nil
	}
	return c.content(child, depth+1)
}
