package diskusage

import (
	"errors"
	"fmt"

	"golang.org/x/sys/unix"
)

const (
	// window is how many of the directories on the way to the current one are open.
	window = 32
	// bufferSize is how much of a directory is read at once.
	bufferSize = 8 << 10
	// maxDepth is how deep directories are counted. Each level takes a level of memory.
	maxDepth = 1 << 13
	// blockSize is the unit of stat's st_blocks on every file system.
	blockSize = 512
	// tickEvery is after how many files walk.tick is called.
	tickEvery = 64

	openFlags = unix.O_DIRECTORY | unix.O_RDONLY | unix.O_NOFOLLOW | unix.O_CLOEXEC | unix.O_NONBLOCK
	// A user-space file system is not called, and nothing is mounted.
	statFlags = unix.AT_SYMLINK_NOFOLLOW | unix.AT_NO_AUTOMOUNT | unix.AT_STATX_DONT_SYNC
	statMask  = unix.STATX_TYPE | unix.STATX_NLINK | unix.STATX_INO | unix.STATX_BLOCKS
)

// walk counts the files below a directory.
type walk struct {
	// tick is called after every tickEvery files, and ends the walk with its error.
	tick func(files int) error
	// linked are the files with several names that were counted.
	linked *linked
	// of returns the figure that an entry of the top directory, with all below it, is added to. Nil: the entry isn't
	// counted.
	of func(name string) *Figure

	// total has the figures of this walk and others so far.
	total *Figure
	// ended is that an error ended the walk, and not only left something out.
	ended bool

	files int
	stat  unix.Statx_t
	dev   device
	// stack are the directories from the top to the current one; those from open on have a descriptor, and a buffer
	// in buffers.
	stack   []level
	open    int
	buffers [window]buffer
	figure  *Figure
	// failed is the first error of a file that is left out.
	failed error
}

type device struct{ major, minor uint32 }

// level is a directory on the way. It is small, as there can be maxDepth of them.
type level struct {
	inode uint64
	// next is where the rest of the directory starts, as lseek takes it.
	next int64
	fd   int32
}

// count counts the files below the open directory, which it closes. After an error the figures are those found so
// far.
func (w *walk) count(top int) error {
	st := &w.stat
	if err := stat(top, "", st); err != nil {
		_ = unix.Close(top)
		return fmt.Errorf("look at the directory: %w", err)
	}
	w.dev, w.stack, w.open, w.failed = device{st.Dev_major, st.Dev_minor}, w.stack[:0], 0, nil
	w.linked.reset()
	defer w.closeAll()
	w.push(top, st.Ino)
	for len(w.stack) > 0 {
		name, err := w.next()
		if err != nil {
			w.fail(fmt.Errorf("list a directory: %w", err))
		}
		if name == "" {
			if err := w.pop(); err != nil {
				w.ended = true
				return err
			}
			continue
		}
		if err := w.entry(name); err != nil {
			w.ended = true
			return err
		}
	}
	return w.failed
}

func (w *walk) add(f Figure) {
	w.figure.add(f)
	w.total.add(f)
}

func (w *walk) fail(err error) {
	if w.failed == nil {
		w.failed = err
	}
}

// entry counts the named entry of the current directory. The name may lead elsewhere at each call: the opened file is
// what counts.
func (w *walk) entry(name string) error {
	dir := int(w.stack[len(w.stack)-1].fd)
	if len(w.stack) == 1 {
		if w.figure = w.of(name); w.figure == nil {
			return nil
		}
	}
	if w.files++; w.files%tickEvery == 0 {
		if err := w.tick(tickEvery); err != nil {
			return err
		}
	}
	st := &w.stat
	switch err := stat(dir, name, st); {
	case gone(err):
		return nil
	case err != nil:
		w.fail(fmt.Errorf("look at a file: %w", err))
	case st.Mode&unix.S_IFMT == unix.S_IFDIR:
		return w.directory(dir, name)
	default:
		w.add(w.linked.share(st))
	}
	return nil
}

// directory counts a directory, and makes it the current one.
func (w *walk) directory(dir int, name string) error {
	st := &w.stat
	// A mount is not part of the pod's directory, and opening it could block.
	if w.foreign(st) {
		return nil
	}
	fd, err := openAt(dir, name)
	switch {
	case gone(err), errors.Is(err, unix.ENOTDIR), errors.Is(err, unix.ELOOP):
		return nil
	case err != nil:
		w.fail(fmt.Errorf("open a directory: %w", err))
		return nil
	}
	if err := stat(fd, "", st); err != nil || w.foreign(st) {
		_ = unix.Close(fd)
		if err != nil {
			w.fail(fmt.Errorf("look at a directory: %w", err))
		}
		return nil
	}
	w.add(Figure{bytesOf(st), 1})
	if len(w.stack) == maxDepth {
		_ = unix.Close(fd)
		return errTooDeep
	}
	w.push(fd, st.Ino)
	return nil
}

// foreign reports whether the directory is on another mount.
func (w *walk) foreign(st *unix.Statx_t) bool {
	return device{st.Dev_major, st.Dev_minor} != w.dev || st.Attributes&st.Attributes_mask&unix.STATX_ATTR_MOUNT_ROOT != 0
}

// next returns the next name in the current directory; empty: there is none.
func (w *walk) next() (string, error) {
	at := &w.stack[len(w.stack)-1]
	b := &w.buffers[(len(w.stack)-1)%window]
	for {
		if name, next, ok := b.take(); ok {
			at.next = next
			if name != "." && name != ".." {
				return name, nil
			}
			continue
		}
		more, err := b.fill(int(at.fd))
		if err != nil || !more {
			return "", err
		}
	}
}

func (w *walk) push(fd int, inode uint64) {
	if len(w.stack)-w.open == window {
		_ = unix.Close(int(w.stack[w.open].fd))
		w.stack[w.open].fd = -1
		w.open++
	}
	w.stack = append(w.stack, level{inode: inode, fd: int32(fd)}) //nolint:gosec // Descriptors are small.
	w.buffers[(len(w.stack)-1)%window].reset()
}

// pop returns to the parent, through ".." if its descriptor was closed. If the current directory was moved meanwhile,
// ".." isn't the parent.
func (w *walk) pop() error {
	last := len(w.stack) - 1
	fd := int(w.stack[last].fd)
	defer func() { _ = unix.Close(fd) }()
	w.stack = w.stack[:last]
	if last == 0 || w.open < last {
		return nil
	}
	parent := &w.stack[last-1]
	up, err := openAt(fd, "..")
	if gone(err) {
		return errMoved
	}
	if err != nil {
		return fmt.Errorf("open a parent directory: %w", err)
	}
	parent.fd, w.open = int32(up), last-1 //nolint:gosec // Descriptors are small.
	st := &w.stat
	if err := stat(up, "", st); err != nil {
		return fmt.Errorf("look at a parent directory: %w", err)
	}
	if st.Ino != parent.inode || w.foreign(st) && last > 1 {
		return errMoved
	}
	w.buffers[(last-1)%window].reset()
	if _, err := unix.Seek(up, parent.next, unix.SEEK_SET); err != nil {
		return fmt.Errorf("go on in a directory: %w", err)
	}
	return nil
}

func (w *walk) closeAll() {
	for _, l := range w.stack[min(w.open, len(w.stack)):] {
		_ = unix.Close(int(l.fd))
	}
	w.stack = w.stack[:0]
}

func gone(err error) bool { return errors.Is(err, unix.ENOENT) }

func bytesOf(st *unix.Statx_t) int64 {
	const most = 1 << 53
	return int64(min(st.Blocks, most)) * blockSize //nolint:gosec // It is bounded.
}

// stat looks at a name in an open directory, or at the directory itself if the name is empty.
func stat(dir int, name string, st *unix.Statx_t) error {
	flags := statFlags
	if name == "" {
		flags |= unix.AT_EMPTY_PATH
	}
	for {
		if err := unix.Statx(dir, name, flags, statMask, st); !errors.Is(err, unix.EINTR) {
			return err
		}
	}
}

// openAt opens a directory relative to another one.
func openAt(dir int, name string) (int, error) {
	for {
		if fd, err := unix.Openat(dir, name, openFlags, 0); !errors.Is(err, unix.EINTR) {
			return fd, err
		}
	}
}
