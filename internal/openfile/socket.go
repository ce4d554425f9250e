package openfile

import (
	"context"
	"errors"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"time"

	"golang.org/x/sys/unix"
)

// Socket is the file of a Unix socket, opened for reference only. Until it is closed the file system gives its inode number to no
// other file, so that Same distinguishes it from a socket that was made later at the same path.
type Socket struct {
	file *os.File
	stat unix.Stat_t
}

// OpenSocketBeneath opens the file of the socket called name beneath dir. As with OpenBeneath no symbolic link is followed. A socket
// on another mount than dir is ErrOutside too. What isn't a socket is a SocketKindError.
func OpenSocketBeneath(dir, name string) (*Socket, error) {
	fd, err := lookupBeneath(dir, name, unix.RESOLVE_NO_XDEV)
	return newSocket(fd, filepath.Join(dir, name), err)
}

// OpenLinkedSocket is OpenSocketBeneath, but follows relative symbolic links that don't lead out of dir. Absolute links are
// ErrOutside. Without openat2 it follows no links.
func OpenLinkedSocket(dir, name string) (*Socket, error) {
	path := filepath.Join(dir, name)
	if !filepath.IsLocal(name) || slices.Contains(slices.Collect(elements(name)), "..") {
		return nil, &fs.PathError{Op: "open", Path: path, Err: ErrOutside}
	}
	at, err := unix.Open(dir, unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, &fs.PathError{Op: "open", Path: dir, Err: err}
	}
	defer func() { _ = unix.Close(at) }()
	how := &unix.OpenHow{
		Flags: unix.O_PATH | unix.O_CLOEXEC, Resolve: unix.RESOLVE_BENEATH | unix.RESOLVE_NO_XDEV | unix.RESOLVE_NO_MAGICLINKS,
	}
	fd, err := again(func() (int, error) { return openat2(at, name, how) })
	for range maxRaces {
		if !errors.Is(err, unix.EAGAIN) {
			break
		}
		fd, err = again(func() (int, error) { return openat2(at, name, how) })
	}
	if errors.Is(err, unix.ENOSYS) || errors.Is(err, unix.EPERM) {
		fd, err = lookupStepwise(at, name, unix.RESOLVE_NO_SYMLINKS|unix.RESOLVE_NO_XDEV)
	}
	if errors.Is(err, unix.ELOOP) || errors.Is(err, unix.EXDEV) {
		err = ErrOutside
	}
	if err != nil {
		err = &fs.PathError{Op: "open", Path: path, Err: err}
	}
	return newSocket(fd, path, err)
}

// newSocket returns the Socket of a descriptor, which it takes over.
func newSocket(fd int, path string, err error) (*Socket, error) {
	if err != nil {
		return nil, err
	}
	s := &Socket{file: os.NewFile(uintptr(fd), path)}
	if _, err := again(func() (int, error) { return 0, unix.Fstat(fd, &s.stat) }); err != nil {
		s.file.Close()
		return nil, &fs.PathError{Op: "stat", Path: path, Err: err}
	}
	if s.stat.Mode&unix.S_IFMT != unix.S_IFSOCK {
		mode, err := statOf(fd, path)
		s.file.Close()
		if err != nil {
			return nil, err
		}
		kind := kindOf(mode)
		if kind == "" {
			kind = "regular file"
		}
		return nil, &SocketKindError{Path: path, Kind: kind}
	}
	return s, nil
}

// Same reports whether both are the same file.
func (s *Socket) Same(other *Socket) bool {
	return s.stat.Dev == other.stat.Dev && s.stat.Ino == other.stat.Ino
}

// Owner is the file's user.
func (s *Socket) Owner() uint32 { return s.stat.Uid }

// Bound is when the socket was bound: its file isn't modified after that.
func (s *Socket) Bound() time.Time { return time.Unix(s.stat.Mtim.Unix()) }

// Dial connects to the process that listens on this file, whatever its path leads to meanwhile. If the Socket is closed by then, it
// returns os.ErrClosed.
func (s *Socket) Dial(ctx context.Context) (conn net.Conn, err error) {
	raw, err := s.file.SyscallConn()
	if err != nil {
		return nil, err
	}
	// The descriptor stays open during the call: after that its number may be another file's.
	closed := raw.Control(func(fd uintptr) {
		conn, err = (&net.Dialer{}).DialContext(ctx, "unix", "/proc/self/fd/"+strconv.FormatUint(uint64(fd), 10))
	})
	if closed != nil {
		return nil, &fs.PathError{Op: "connect", Path: s.file.Name(), Err: os.ErrClosed}
	}
	var op *net.OpError
	if errors.As(err, &op) {
		return nil, &fs.PathError{Op: "connect", Path: s.file.Name(), Err: op.Err}
	}
	return conn, err
}

// Close closes the reference. Connections stay.
func (s *Socket) Close() error { return s.file.Close() }
