package file

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/podstream/podstream/internal/manifest"
	"github.com/podstream/podstream/internal/openfile"
)

// errGone is returned by open where no manifest can be: the path doesn't exist, or is a directory.
var errGone = errors.New("is gone")

// stamp identifies a version of a file's content, as far as the file system can. Symbolic links are followed.
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

// equal reports whether the two versions can't be distinguished.
func (s stamp) equal(o stamp) bool {
	return s.sameFile(o) && s.size == o.size && s.mtime.Equal(o.mtime) && s.ctime.Equal(o.ctime)
}

// fingerprint distinguishes readings with different results: the digest of the bytes, or why there are none.
type fingerprint struct {
	sum     [sha256.Size]byte
	problem string
}

// open opens a manifest, or returns why it can't be one. It waits for no other process. Errors are worded to follow
// the file's name.
func open(path string) (*os.File, stamp, error) {
	f, err := openfile.Open(path)
	if err != nil {
		return nil, stamp{}, explain(path, err)
	}
	info, err := f.Stat()
	if err == nil && info.Size() > manifest.MaxSize {
		err = &openfile.SizeError{Size: info.Size(), Limit: manifest.MaxSize}
	}
	if err != nil {
		f.Close()
		return nil, stamp{}, err
	}
	return f, stampOf(info), nil
}

// explain words the error of a path that can't be opened.
func explain(path string, err error) error {
	var kind *openfile.KindError
	switch {
	case errors.As(err, &kind) && kind.Mode.IsDir():
		if _, err := os.Readlink(path); err != nil {
			return errGone
		}
		return errors.New("is a symbolic link to a directory, not a regular file")
	case errors.As(err, &kind):
		return fmt.Errorf("is a %s, not a regular file", kind.Kind)
	case errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ENOTDIR):
		target, linkErr := os.Readlink(path)
		if linkErr != nil {
			return errGone
		}
		return fmt.Errorf("is a symbolic link to %s, which doesn't exist", target)
	}
	return fmt.Errorf("can't be opened: %w", cause(err))
}

// cause returns the error without operation and path: the path is in the finding already.
func cause(err error) error {
	var pathErr *fs.PathError
	if errors.As(err, &pathErr) {
		return pathErr.Err
	}
	return err
}

// readAll reads the whole file, which had version before when it was opened. stable is false if the file changed
// meanwhile: data may then be a mixture of two versions.
func readAll(ctx context.Context, f *os.File, before stamp) (data []byte, stable bool, err error) {
	data, err = openfile.ReadAll(ctx, f, manifest.MaxSize)
	var size *openfile.SizeError
	switch {
	case ctx.Err() != nil || errors.As(err, &size):
		return nil, false, err
	case err != nil:
		return nil, true, fmt.Errorf("can't be read: %w", cause(err))
	}
	info, err := f.Stat()
	if err != nil {
		return nil, true, fmt.Errorf("can't be read: %w", cause(err))
	}
	return data, stampOf(info).equal(before), nil
}

// writersOf finds out from the kernel whether the file is open for writing: a read lease is granted only if it isn't.
func writersOf(f *os.File) writers {
	fd := f.Fd()
	_, err := unix.FcntlInt(fd, unix.F_SETLEASE, unix.F_RDLCK)
	switch {
	case err == nil:
		// At the latest, closing the descriptor releases the lease.
		_, _ = unix.FcntlInt(fd, unix.F_SETLEASE, unix.F_UNLCK)
		return writersNone
	case errors.Is(err, unix.EAGAIN) && !remote(fd):
		return writersSome
	default:
		return writersUnknown
	}
}

// remote reports whether the file is on a network file system. These return EAGAIN also if the server granted this
// client no lease, which doesn't mean that there are writers.
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
