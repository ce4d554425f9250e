package openfile

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"

	"golang.org/x/sys/unix"
)

// openat2 is the system call; tests replace it with that of an old kernel.
var openat2 = unix.Openat2

// maxRaces is the number of retries after the kernel's EAGAIN, a rename during the lookup.
const maxRaces = 16

// Open opens the regular file that path names, for reading. Symbolic links are followed, those of procfs that stand
// for an open file or another root (magic links) aren't. The error is an fs.PathError, a KindError, or wraps
// ErrLeased.
func Open(path string) (*os.File, error) {
	fd, err := lookup(unix.AT_FDCWD, path, unix.RESOLVE_NO_MAGICLINKS)
	if err != nil {
		return nil, &fs.PathError{Op: "open", Path: path, Err: err}
	}
	defer func() { _ = unix.Close(fd) }()
	return Reopen(fd, path, unix.O_RDONLY)
}

// OpenBeneath opens the regular file called name beneath dir, for reading. name is relative to dir; no symbolic link
// in it is followed, including the last element, and none of its elements may be "..": otherwise the error is
// ErrOutside. dir itself is trusted.
func OpenBeneath(dir, name string) (*os.File, error) {
	path := filepath.Join(dir, name)
	fd, err := lookupBeneath(dir, name, 0)
	if err != nil {
		return nil, err
	}
	defer func() { _ = unix.Close(fd) }()
	return Reopen(fd, path, unix.O_RDONLY)
}

// OpenDirBeneath opens the directory called name beneath dir, for listing and for calls relative to its descriptor. As
// with OpenBeneath no symbolic link is followed. A directory on another mount is ErrOutside too.
func OpenDirBeneath(dir, name string) (*os.File, error) {
	path := filepath.Join(dir, name)
	fd, err := lookupBeneath(dir, name, unix.RESOLVE_NO_XDEV)
	if err != nil {
		return nil, err
	}
	defer func() { _ = unix.Close(fd) }()
	opened, err := again(func() (int, error) { return unix.Openat(fd, ".", unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0) })
	if err != nil {
		return nil, &fs.PathError{Op: "open", Path: path, Err: err}
	}
	return os.NewFile(uintptr(opened), path), nil
}

// lookupBeneath opens name beneath dir for reference only (O_PATH). resolve are further restrictions.
func lookupBeneath(dir, name string, resolve uint64) (int, error) {
	path := filepath.Join(dir, name)
	// A directory may be moved during the lookup, so its ".." may lead anywhere.
	if !filepath.IsLocal(name) || slices.Contains(slices.Collect(elements(name)), "..") {
		return -1, &fs.PathError{Op: "open", Path: path, Err: ErrOutside}
	}
	at, err := unix.Open(dir, unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return -1, &fs.PathError{Op: "open", Path: dir, Err: err}
	}
	defer func() { _ = unix.Close(at) }()
	fd, err := lookup(at, name, resolve|unix.RESOLVE_BENEATH|unix.RESOLVE_NO_SYMLINKS|unix.RESOLVE_NO_MAGICLINKS)
	if errors.Is(err, unix.ELOOP) || errors.Is(err, unix.EXDEV) {
		err = ErrOutside
	}
	if err != nil {
		return -1, &fs.PathError{Op: "open", Path: path, Err: err}
	}
	return fd, nil
}

// Reopen opens the regular file that the descriptor fd refers to, which may be one that was opened with O_PATH.
// access is O_RDONLY, O_WRONLY or O_RDWR. path is only the file's name in errors and for File.Name. fd stays open and
// is the caller's.
func Reopen(fd int, path string, access int) (*os.File, error) {
	if err := checkRegular(fd, path); err != nil {
		return nil, err
	}
	how := access&unix.O_ACCMODE | unix.O_NONBLOCK | unix.O_NOCTTY | unix.O_CLOEXEC
	opened, err := again(func() (int, error) { return unix.Open("/proc/self/fd/"+strconv.Itoa(fd), how, 0) })
	if errors.Is(err, unix.EWOULDBLOCK) {
		err = ErrLeased
	}
	if err != nil {
		return nil, &fs.PathError{Op: "open", Path: path, Err: err}
	}
	return os.NewFile(uintptr(opened), path), nil
}

// lookup opens the path for reference only (O_PATH): it waits for no FIFO, opens no device, and breaks no lease.
func lookup(dir int, path string, resolve uint64) (int, error) {
	how := &unix.OpenHow{Flags: unix.O_PATH | unix.O_CLOEXEC, Resolve: resolve}
	fd, err := again(func() (int, error) { return openat2(dir, path, how) })
	for range maxRaces {
		if !errors.Is(err, unix.EAGAIN) {
			break
		}
		fd, err = again(func() (int, error) { return openat2(dir, path, how) })
	}
	// Linux before 5.6 lacks the call, and a seccomp profile that doesn't list it forbids it.
	if errors.Is(err, unix.ENOSYS) || errors.Is(err, unix.EPERM) {
		return lookupStepwise(dir, path, resolve)
	}
	return fd, err
}

// lookupStepwise is lookup without openat2. Without RESOLVE_NO_SYMLINKS magic links are followed; checkRegular still
// refuses the usual targets of such links.
func lookupStepwise(dir int, path string, resolve uint64) (int, error) {
	if resolve&unix.RESOLVE_NO_SYMLINKS == 0 {
		return again(func() (int, error) { return unix.Openat(dir, path, unix.O_PATH|unix.O_CLOEXEC, 0) })
	}
	fd, err := LookupStepwise(dir, path)
	if err != nil || resolve&unix.RESOLVE_NO_XDEV == 0 {
		return fd, err
	}
	// Without "..", a path that enters a mount ends in it, or in one below it.
	on, err := Mount(fd)
	above, errAbove := Mount(dir)
	if err = errors.Join(err, errAbove); err == nil && on != above {
		err = unix.EXDEV
	}
	if err != nil {
		_ = unix.Close(fd)
		return -1, err
	}
	return fd, nil
}

// LookupStepwise opens the path beneath the open directory dir for reference only (O_PATH), with one call for each of
// its elements. It is for kernels without openat2. A symbolic link, the last element included, is ELOOP, and ".." is
// EXDEV.
func LookupStepwise(dir int, path string) (int, error) {
	at, err := unix.FcntlInt(uintptr(dir), unix.F_DUPFD_CLOEXEC, 0)
	if err != nil {
		return -1, err
	}
	for name := range elements(path) {
		next, err := step(at, name)
		_ = unix.Close(at)
		if err != nil {
			return -1, err
		}
		at = next
	}
	return at, nil
}

// step opens one element of a path unless it is a symbolic link.
func step(dir int, name string) (int, error) {
	if name == ".." {
		return -1, unix.EXDEV
	}
	// An open with O_PATH doesn't mount what is mounted on demand; this call does, and follows no link. Its result
	// doesn't matter.
	_ = unix.Statx(dir, name, unix.AT_SYMLINK_NOFOLLOW|unix.AT_STATX_DONT_SYNC, 0, &unix.Statx_t{})
	fd, err := again(func() (int, error) {
		return unix.Openat(dir, name, unix.O_PATH|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	})
	if err != nil {
		return -1, err
	}
	var st unix.Stat_t
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

// again repeats a call that a signal interrupts.
func again(call func() (int, error)) (int, error) {
	for {
		n, err := call()
		if !errors.Is(err, unix.EINTR) {
			return n, err
		}
	}
}

// checkRegular refuses what isn't a regular file, and regular files that the kernel generates as they are read: those
// may wait for an event, as /proc/kmsg does, or act on being opened.
func checkRegular(fd int, path string) error {
	info, err := statOf(fd, path)
	if err != nil {
		return err
	}
	if kind := kindOf(info); kind != "" {
		return &KindError{Path: path, Mode: info, Kind: kind}
	}
	var st unix.Statfs_t
	if _, err := again(func() (int, error) { return 0, unix.Fstatfs(fd, &st) }); err != nil {
		return &fs.PathError{Op: "statfs", Path: path, Err: err}
	}
	if name, ok := generated[uint32(st.Type)]; ok {
		return &KindError{Path: path, Mode: info, Kind: fmt.Sprintf("file that the kernel generates (%s)", name)}
	}
	return nil
}
