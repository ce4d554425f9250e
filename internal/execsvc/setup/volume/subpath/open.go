package subpath

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"

	"github.com/podstream/podstream/internal/openfile"
)

// openat2 is the system call; tests replace it to simulate an old kernel.
var openat2 = unix.Openat2

// OpenBeneath opens a regular file of a volume for reading. path is relative to root, without "..", and may lead
// through links that stay within root; else the error is ErrOutside. Concurrent changes by containers can't redirect
// or block it: it opens no FIFO or device, and a lease on the file is openfile.ErrLeased.
func OpenBeneath(root, path string) (*os.File, error) {
	names, err := parse(path)
	if err != nil {
		return nil, err
	}
	r, err := openRoot(root)
	if err != nil {
		return nil, err
	}
	defer r.close()
	fd, err := r.open(names, false)
	if err != nil {
		return nil, err
	}
	defer func() { _ = unix.Close(fd) }()
	f, err := openfile.Reopen(fd, filepath.Join(root, path), unix.O_RDONLY)
	if err != nil {
		return nil, fmt.Errorf("open subpath %q: %w", path, err)
	}
	return f, nil
}

// byDescriptor returns a path to the open file that is independent of its name.
func byDescriptor(fd int) string { return fmt.Sprintf("/proc/self/fd/%d", fd) }

// openPlain opens path below the open directory with O_PATH, which neither blocks nor has side effects, also on a
// FIFO or a device. A link, also as the last name, is ELOOP or ENOTDIR.
func openPlain(dir int, path string) (int, error) {
	how := &unix.OpenHow{
		Flags:   unix.O_PATH | unix.O_CLOEXEC,
		Resolve: unix.RESOLVE_BENEATH | unix.RESOLVE_NO_SYMLINKS | unix.RESOLVE_NO_MAGICLINKS,
	}
	// The slash triggers an automount.
	fd, err := openat2(dir, path+"/", how)
	if errors.Is(err, unix.ENOTDIR) {
		fd, err = openat2(dir, path, how)
	}
	// Linux before 5.6 lacks the call, and a seccomp profile without it returns EPERM.
	if errors.Is(err, unix.ENOSYS) || errors.Is(err, unix.EPERM) {
		return openfile.LookupStepwise(dir, path)
	}
	return fd, err
}

// makeMissing creates the nested names below path with the mode of the volume's root: with an fsGroup it has the
// setgid bit, so that new files belong to the group too. It returns the last directory.
func (r *root) makeMissing(path string, names []string) (int, error) {
	var st unix.Stat_t
	if err := unix.Fstat(r.fd, &st); err != nil {
		return -1, fmt.Errorf("get the mode of the volume: %w", err)
	}
	at, err := openPlain(r.fd, path)
	if err != nil {
		return -1, err
	}
	defer func() { _ = unix.Close(at) }()
	fd, err := makeDirs(at, names, st.Mode&^unix.S_IFMT)
	if err != nil {
		return -1, fmt.Errorf("make it: %w", err)
	}
	return fd, nil
}

// makeDirs creates the nested names below the open directory unless they exist, and returns the last one. It follows
// no link.
func makeDirs(dir int, names []string, mode uint32) (int, error) {
	at, err := unix.FcntlInt(uintptr(dir), unix.F_DUPFD_CLOEXEC, 0)
	if err != nil {
		return -1, err
	}
	for _, name := range names {
		next, err := makeDir(at, name, mode)
		_ = unix.Close(at)
		if err != nil {
			return -1, err
		}
		at = next
	}
	return at, nil
}

// makeDir creates one directory with exactly that mode, whatever the umask; it leaves an existing one as it is.
func makeDir(parent int, name string, mode uint32) (int, error) {
	made := unix.Mkdirat(parent, name, mode)
	if made != nil && !errors.Is(made, unix.EEXIST) {
		return -1, made
	}
	// It may have been replaced by now: the flags exclude a link, and files on which an open blocks.
	fd, err := unix.Openat(parent, name, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err != nil {
		return -1, err
	}
	if made == nil {
		if err := unix.Fchmod(fd, mode); err != nil {
			_ = unix.Close(fd)
			return -1, err
		}
	}
	return fd, nil
}
