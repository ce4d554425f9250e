package subpath

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"
)

// openat2 is the system call; tests replace it with that of an old kernel.
var openat2 = unix.Openat2

// OpenBeneath opens a regular file of a volume for reading. path is relative to root, without "..", and may lead through links
// that stay within root; else the error is ErrOutside. What containers do meanwhile can't lead it elsewhere, and since no FIFO or
// device is opened, can't make it wait.
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
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return nil, fmt.Errorf("look at subpath %q: %w", path, err)
	}
	if st.Mode&unix.S_IFMT != unix.S_IFREG {
		return nil, fmt.Errorf("subpath %q isn't a regular file", path)
	}
	readable, err := unix.Open(byDescriptor(fd), unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, fmt.Errorf("open subpath %q: %w", path, err)
	}
	return os.NewFile(uintptr(readable), filepath.Join(root, path)), nil
}

// byDescriptor is a path that leads to what is open, whatever its name is by now.
func byDescriptor(fd int) string { return fmt.Sprintf("/proc/self/fd/%d", fd) }

// openPlain opens what is called path below the open directory, for reference only (O_PATH): nothing waits or acts, be it a FIFO or
// a device. A link, also as the last name, is ELOOP or ENOTDIR.
func openPlain(dir int, path string) (int, error) {
	how := &unix.OpenHow{
		Flags:   unix.O_PATH | unix.O_CLOEXEC,
		Resolve: unix.RESOLVE_BENEATH | unix.RESOLVE_NO_SYMLINKS | unix.RESOLVE_NO_MAGICLINKS,
	}
	// With the slash a directory that is mounted on demand is mounted.
	fd, err := openat2(dir, path+"/", how)
	if errors.Is(err, unix.ENOTDIR) {
		fd, err = openat2(dir, path, how)
	}
	// Linux before 5.6 hasn't the call, and a seccomp profile that doesn't know it forbids it.
	if errors.Is(err, unix.ENOSYS) || errors.Is(err, unix.EPERM) {
		return openStepwise(dir, path)
	}
	return fd, err
}

// openStepwise is openPlain with one call for each name.
func openStepwise(dir int, path string) (int, error) {
	at, err := unix.FcntlInt(uintptr(dir), unix.F_DUPFD_CLOEXEC, 0)
	if err != nil {
		return -1, err
	}
	for _, name := range split(path) {
		next, err := step(at, name)
		_ = unix.Close(at)
		if err != nil {
			return -1, err
		}
		at = next
	}
	return at, nil
}

// step opens the child of an open directory, unless it is a link.
func step(dir int, name string) (int, error) {
	if name == ".." {
		return -1, unix.EXDEV
	}
	var st unix.Stat_t
	// Only to have mounted what is mounted on demand: what it says, or why it fails, doesn't matter.
	_ = unix.Fstatat(dir, name+"/", &st, unix.AT_SYMLINK_NOFOLLOW)
	fd, err := unix.Openat(dir, name, unix.O_PATH|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err != nil {
		return -1, err
	}
	err = unix.Fstat(fd, &st)
	if err == nil && st.Mode&unix.S_IFMT == unix.S_IFLNK {
		err = unix.ELOOP
	}
	if err != nil {
		_ = unix.Close(fd)
		return -1, err
	}
	return fd, nil
}

// makeMissing makes the names below path, one in the other, with the mode of the volume's root: with an fsGroup that has the setgid
// bit, so that what is made below belongs to the group too. It returns the last one.
func (r *root) makeMissing(path string, names []string) (int, error) {
	var st unix.Stat_t
	if err := unix.Fstat(r.fd, &st); err != nil {
		return -1, fmt.Errorf("look at the mode of the volume: %w", err)
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

// makeDirs makes the names below the open directory, one in the other, unless they are there, and returns the last one. It follows
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

// makeDir makes one directory, with just that mode whatever the umask; one that is there is left as it is.
func makeDir(parent int, name string, mode uint32) (int, error) {
	made := unix.Mkdirat(parent, name, mode)
	if made != nil && !errors.Is(made, unix.EEXIST) {
		return -1, made
	}
	// It may have been replaced by now: not by a link, then, nor by what an open could wait for.
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
