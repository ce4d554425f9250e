package logdir

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	"golang.org/x/sys/unix"

	"github.com/podstream/podstream/internal/openfile"
)

// maxEntries is how many names of a directory are read.
const maxEntries = 10_000

// ErrTooManyFiles is the error of Rotated for a directory of more than maxEntries names.
var ErrTooManyFiles = fmt.Errorf("its directory has more than %d files", maxEntries)

// Log is a container's log, with its open directory. It is not safe for concurrent use.
type Log struct {
	dir *os.File
	// Name is the log's file name.
	Name string
}

// Open returns the log called name, a path relative to logsDir, the trusted directory of all logs. The log needn't
// exist, its directory must; otherwise the error is fs.ErrNotExist. A link on the way is openfile.ErrOutside.
func Open(logsDir, name string) (*Log, error) {
	dir, err := openfile.OpenDirBeneath(logsDir, filepath.Dir(name))
	if err != nil {
		return nil, err
	}
	return &Log{dir: dir, Name: filepath.Base(name)}, nil
}

// Close closes the directory.
func (l *Log) Close() { _ = l.dir.Close() }

// Path returns the file's path, for messages.
func (l *Log) Path(name string) string { return filepath.Join(l.dir.Name(), name) }

func (l *Log) fd() int { return int(l.dir.Fd()) }

// Rotated returns the regular files among the rotated logs, the oldest first. With ErrTooManyFiles, it returns those
// among the names that were read.
func (l *Log) Rotated() ([]Rotated, error) {
	var list []Rotated
	err := l.each(func(e fs.DirEntry) {
		if r, ok := Parse(l.Name, e.Name()); ok && e.Type().IsRegular() {
			list = append(list, r)
		}
	})
	slices.SortFunc(list, compare)
	return list, err
}

// Successor returns the rotated log after that one, but no temporary one. Nil: there is none. It needs little memory,
// whatever the directory has. With ErrTooManyFiles, it is among the names that were read.
func (l *Log) Successor(of Rotated) (next *Rotated, err error) {
	err = l.each(func(e fs.DirEntry) {
		r, ok := Parse(l.Name, e.Name())
		if ok && r.Kind != Temporary && r.After(of) && (next == nil || compare(r, *next) < 0) && e.Type().IsRegular() {
			next = &r
		}
	})
	return next, err
}

// each calls do for the entries of the directory. The error is ErrTooManyFiles if there are more than maxEntries.
func (l *Log) each(do func(fs.DirEntry)) error {
	if _, err := l.dir.Seek(0, io.SeekStart); err != nil {
		return err
	}
	for read := 0; ; {
		entries, err := l.dir.ReadDir(min(1024, maxEntries+1-read))
		for _, e := range entries {
			do(e)
		}
		read += len(entries)
		switch {
		case read > maxEntries:
			return ErrTooManyFiles
		case errors.Is(err, io.EOF), errors.Is(err, fs.ErrNotExist): // The directory was removed.
			return nil
		case err != nil:
			return err
		}
	}
}

// Stat returns the file's status. If it isn't a regular file, the error is an openfile.KindError.
func (l *Log) Stat(name string) (st unix.Stat_t, err error) {
	if err := ignoringEINTR(func() error { return unix.Fstatat(l.fd(), name, &st, unix.AT_SYMLINK_NOFOLLOW|unix.AT_NO_AUTOMOUNT) }); err != nil {
		return st, &fs.PathError{Op: "stat", Path: l.Path(name), Err: err}
	}
	if st.Mode&unix.S_IFMT != unix.S_IFREG {
		return st, &openfile.KindError{Path: l.Path(name), Kind: "link, directory or special file"}
	}
	return st, nil
}

// OpenFile opens the file for reading, if it is a regular one.
func (l *Log) OpenFile(name string) (*os.File, error) {
	fd := -1
	err := ignoringEINTR(func() (err error) {
		fd, err = unix.Openat(l.fd(), name, unix.O_PATH|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
		return err
	})
	if err != nil {
		return nil, &fs.PathError{Op: "open", Path: l.Path(name), Err: err}
	}
	defer func() { _ = unix.Close(fd) }()
	return openfile.Reopen(fd, l.Path(name), unix.O_RDONLY)
}

// Create creates the file for writing, with the owner and permissions of another one.
func (l *Log) Create(name string, like *unix.Stat_t) (*os.File, error) {
	fd := -1
	err := ignoringEINTR(func() (err error) {
		fd, err = unix.Openat(l.fd(), name, unix.O_WRONLY|unix.O_CREAT|unix.O_EXCL|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0o600)
		return err
	})
	if err != nil {
		return nil, &fs.PathError{Op: "create", Path: l.Path(name), Err: err}
	}
	f := os.NewFile(uintptr(fd), l.Path(name))
	err = unix.Fchown(fd, int(like.Uid), int(like.Gid))
	if err == nil {
		err = unix.Fchmod(fd, like.Mode&0o777)
	}
	if err != nil {
		_ = f.Close()
		return nil, errors.Join(&fs.PathError{Op: "set the owner of", Path: l.Path(name), Err: err}, l.Remove(name))
	}
	return f, nil
}

// Rename renames a file. If there is a file of the new name, the error is fs.ErrExist.
func (l *Log) Rename(from, to string) error {
	err := ignoringEINTR(func() error { return unix.Renameat2(l.fd(), from, l.fd(), to, unix.RENAME_NOREPLACE) })
	if errors.Is(err, unix.EINVAL) || errors.Is(err, unix.ENOSYS) {
		// The file system can't exclude that another process creates the file just now.
		if _, err = l.Stat(to); err == nil {
			err = unix.EEXIST
		} else if errors.Is(err, fs.ErrNotExist) {
			err = ignoringEINTR(func() error { return unix.Renameat(l.fd(), from, l.fd(), to) })
		}
	}
	if err != nil {
		return &os.LinkError{Op: "rename", Old: l.Path(from), New: to, Err: err}
	}
	return nil
}

// Remove removes a file. One that is gone is no error.
func (l *Log) Remove(name string) error {
	err := ignoringEINTR(func() error { return unix.Unlinkat(l.fd(), name, 0) })
	if err != nil && !errors.Is(err, unix.ENOENT) {
		return &fs.PathError{Op: "remove", Path: l.Path(name), Err: err}
	}
	return nil
}

func ignoringEINTR(call func() error) error {
	for {
		if err := call(); !errors.Is(err, unix.EINTR) {
			return err
		}
	}
}
