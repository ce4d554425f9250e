package file

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/podstream/podstream/internal/manifest"
)

// errGone is open's answer where no manifest can be: the path isn't there, or is a directory.
var errGone = errors.New("is gone")

// stamp identifies a version of a file's content, as far as the file system tells. Symbolic links are followed.
type stamp struct {
	dev, ino     uint64
	size         int64
	mtime, ctime time.Time
}

func stampOf(info fs.FileInfo) stamp {
	s := stamp{size: info.Size(), mtime: info.ModTime(), ctime: info.ModTime()}
	if sys, ok := info.Sys().(*syscall.Stat_t); ok {
		s.dev, s.ino = sys.Dev, sys.Ino
		s.ctime = time.Unix(sys.Ctim.Unix())
	}
	return s
}

// changed is when the file last changed in any way.
func (s stamp) changed() time.Time {
	if s.mtime.After(s.ctime) {
		return s.mtime
	}
	return s.ctime
}

// sameFile reports whether both are versions of the same file or directory.
func (s stamp) sameFile(o stamp) bool {
	return s.dev == o.dev && s.ino == o.ino
}

// equal reports whether nothing tells the two versions apart.
func (s stamp) equal(o stamp) bool {
	return s.sameFile(o) && s.size == o.size && s.mtime.Equal(o.mtime) && s.ctime.Equal(o.ctime)
}

// fingerprint tells readings with different results apart: the digest of the bytes, or why there are none.
type fingerprint struct {
	sum     [sha256.Size]byte
	problem string
}

// open opens a manifest without ever blocking, or says why it can't be one. Errors are worded to follow the file's name.
func open(path string) (*os.File, stamp, error) {
	// A device isn't even opened: that alone can have effects.
	info, err := os.Stat(path)
	if err != nil {
		return nil, stamp{}, explain(path, err)
	}
	if err := checkKind(path, info.Mode()); err != nil {
		return nil, stamp{}, err
	}
	// What it is may have changed since; O_NONBLOCK keeps a named pipe from holding us up.
	f, err := os.OpenFile(path, os.O_RDONLY|unix.O_NONBLOCK|unix.O_NOCTTY, 0)
	if err != nil {
		return nil, stamp{}, explain(path, err)
	}
	info, err = f.Stat()
	if err == nil {
		err = checkKind(path, info.Mode())
	}
	if err == nil && info.Size() > manifest.MaxSize {
		err = tooBig(info.Size())
	}
	if err != nil {
		f.Close()
		return nil, stamp{}, err
	}
	return f, stampOf(info), nil
}

// explain words the error of a path that can't be opened.
func explain(path string, err error) error {
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ENOTDIR) {
		target, linkErr := os.Readlink(path)
		if linkErr != nil {
			return errGone
		}
		return fmt.Errorf("is a symbolic link to %s, which doesn't exist", target)
	}
	return fmt.Errorf("can't be opened: %w", cause(err))
}

// cause is the error without operation and path: the path stands with the finding already.
func cause(err error) error {
	var pathErr *fs.PathError
	if errors.As(err, &pathErr) {
		return pathErr.Err
	}
	return err
}

// checkKind refuses what isn't a regular file.
func checkKind(path string, mode fs.FileMode) error {
	var kind string
	switch {
	case mode.IsRegular():
		return nil
	case mode.IsDir():
		if _, err := os.Readlink(path); err != nil {
			return errGone
		}
		kind = "symbolic link to a directory"
	case mode&fs.ModeNamedPipe != 0:
		kind = "named pipe"
	case mode&fs.ModeSocket != 0:
		kind = "socket"
	case mode&fs.ModeDevice != 0:
		kind = "device"
	default:
		kind = "special file"
	}
	return fmt.Errorf("is a %s, not a regular file", kind)
}

func tooBig(size int64) error {
	return fmt.Errorf("is %d bytes; at most %d are read", size, manifest.MaxSize)
}

// readAll reads the whole file, which was at version before when it was opened. It isn't stable if the file changed
// meanwhile: data may then be a mixture of two versions.
func readAll(f *os.File, before stamp) (data []byte, stable bool, err error) {
	data, err = io.ReadAll(io.LimitReader(f, manifest.MaxSize+1))
	if err != nil {
		return nil, true, fmt.Errorf("can't be read: %w", cause(err))
	}
	info, err := f.Stat()
	if err != nil {
		return nil, true, fmt.Errorf("can't be read: %w", cause(err))
	}
	if int64(len(data)) > manifest.MaxSize {
		return nil, false, tooBig(max(info.Size(), int64(len(data))))
	}
	return data, stampOf(info).equal(before), nil
}

// writersOf asks the kernel whether the file is open for writing: a read lease is granted only if it isn't.
func writersOf(f *os.File) writers {
	fd := f.Fd()
	_, err := unix.FcntlInt(fd, unix.F_SETLEASE, unix.F_RDLCK)
	switch {
	case err == nil:
		// The lease goes with the descriptor at the latest.
		_, _ = unix.FcntlInt(fd, unix.F_SETLEASE, unix.F_UNLCK)
		return writersNone
	case errors.Is(err, unix.EAGAIN) && !remote(fd):
		return writersSome
	default:
		return writersUnknown
	}
}

// remote reports whether the file is on a network file system. Those say EAGAIN also where the server granted this client
// no lease, which tells nothing of writers.
func remote(fd uintptr) bool {
	var st unix.Statfs_t
	if err := unix.Fstatfs(int(fd), &st); err != nil {
		return true
	}
	switch uint32(st.Type) {
	case unix.NFS_SUPER_MAGIC, unix.CIFS_SUPER_MAGIC, unix.SMB_SUPER_MAGIC, unix.SMB2_SUPER_MAGIC,
		unix.FUSE_SUPER_MAGIC, unix.V9FS_MAGIC, unix.CEPH_SUPER_MAGIC, unix.AFS_SUPER_MAGIC, unix.CODA_SUPER_MAGIC:
		return true
	}
	return false
}
