package csivolume

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/podstream/podstream/internal/openfile"
)

// dirMode is the kubelet's mode of the directories of volumes.
const dirMode = 0o750

var (
	// errLink is the error of a path that leads through a link, and errForeign of one that leads onto another mount.
	errLink    = errors.New("it is a symbolic link, which isn't followed")
	errForeign = errors.New("another file system is mounted there")
	// errFile is the error of a file in the place of a mount point.
	errFile = errors.New("it is a file, not a directory")
	// errMounted is the error of a mount point that a driver says it has unmounted.
	errMounted = errors.New("it is still a mount point")
)

// maxRaces is the number of retries after the kernel's EAGAIN, a rename during the lookup.
const maxRaces = 16

// openat2 is the system call; tests replace it with that of an old kernel.
var openat2 = unix.Openat2

// enter opens a directory in an open one, unless it is a link or on another mount.
func enter(parent *os.File, name string) (*os.File, error) {
	path := filepath.Join(parent.Name(), name)
	fd, err := lookup(parent, name, unix.O_DIRECTORY)
	switch {
	case errors.Is(err, unix.ELOOP):
		return nil, fmt.Errorf("%s: %w", path, errLink)
	case errors.Is(err, unix.EXDEV):
		return nil, fmt.Errorf("%s: %w", path, errForeign)
	case err != nil:
		return nil, &fs.PathError{Op: "open", Path: path, Err: err}
	}
	return os.NewFile(uintptr(fd), path), nil
}

// lookup opens an entry of an open directory for reference only. A link is ELOOP, and a mount point is EXDEV; the kernel
// asks no foreign file system.
func lookup(parent *os.File, name string, flags uint64) (int, error) {
	how := &unix.OpenHow{
		Flags: unix.O_PATH | unix.O_CLOEXEC | flags, Resolve: unix.RESOLVE_BENEATH | unix.RESOLVE_NO_SYMLINKS | unix.RESOLVE_NO_XDEV,
	}
	for n := 0; ; n++ {
		fd, err := openat2(int(parent.Fd()), name, how)
		switch {
		case errors.Is(err, unix.EINTR), errors.Is(err, unix.EAGAIN) && n < maxRaces:
			continue
		case errors.Is(err, unix.ENOSYS), errors.Is(err, unix.EPERM):
			// Linux before 5.6, or a seccomp profile without it.
			return lookupCompared(parent, name, flags)
		}
		return fd, err
	}
}

// lookupCompared is lookup without openat2: it compares mount IDs.
func lookupCompared(parent *os.File, name string, flags uint64) (int, error) {
	fd, err := openfile.LookupStepwise(int(parent.Fd()), name)
	if err != nil {
		return -1, err
	}
	above, err := openfile.Mount(int(parent.Fd()))
	if err == nil {
		var on string
		if on, err = openfile.Mount(fd); err == nil && on != above {
			err = unix.EXDEV
		}
	}
	var st unix.Stat_t
	if err == nil {
		err = unix.Fstat(fd, &st)
	}
	if err == nil && flags&unix.O_DIRECTORY != 0 && st.Mode&unix.S_IFMT != unix.S_IFDIR {
		err = unix.ENOTDIR
	}
	if err != nil {
		_ = unix.Close(fd)
		return -1, err
	}
	return fd, nil
}

// open opens the place's directory. made: directories that are missing are created.
func (p place) open(made bool) (*os.File, error) {
	at, err := os.OpenFile(p.base, unix.O_PATH|unix.O_DIRECTORY, 0)
	if err != nil {
		return nil, fmt.Errorf("open the directory of volumes: %w", err)
	}
	for name := range strings.SplitSeq(p.name, "/") {
		if made {
			err = makeDir(at, name)
		}
		var next *os.File
		if err == nil {
			next, err = enter(at, name)
		}
		_ = at.Close()
		if err != nil {
			return nil, err
		}
		at = next
	}
	return at, nil
}

// makeDir creates a directory unless its name exists.
func makeDir(parent *os.File, name string) error {
	err := unix.Mkdirat(int(parent.Fd()), name, dirMode)
	if err != nil && !errors.Is(err, unix.EEXIST) {
		return fmt.Errorf("create the directory %s: %w", filepath.Join(parent.Name(), name), err)
	}
	return nil
}

// found is what is in the place of a mount point.
type found int

const (
	nothing found = iota
	// directory is one on the mount of the directory around it.
	directory
	mounted
)

// look returns what is in the place of a mount point. A link or a file is an error.
func look(parent *os.File, name string) (found, error) {
	path := filepath.Join(parent.Name(), name)
	fd, err := lookup(parent, name, unix.O_DIRECTORY)
	switch {
	case err == nil:
		return directory, unix.Close(fd)
	case errors.Is(err, unix.ENOENT):
		return nothing, nil
	case errors.Is(err, unix.EXDEV):
		return mounted, nil
	case errors.Is(err, unix.ELOOP):
		return nothing, fmt.Errorf("%s: %w; it is left as it is", path, errLink)
	case errors.Is(err, unix.ENOTDIR):
		return nothing, fmt.Errorf("%s: %w; it is left as it is", path, errFile)
	default:
		return nothing, &fs.PathError{Op: "open", Path: path, Err: err}
	}
}

// removeMountPoint removes an empty directory that was a mount point.
func removeMountPoint(parent *os.File, name string) error {
	path := filepath.Join(parent.Name(), name)
	is, err := look(parent, name)
	switch {
	case err != nil:
		return err
	case is == mounted:
		return fmt.Errorf("%s: %w; nothing is removed", path, errMounted)
	case is == nothing:
		return nil
	}
	return removeEmpty(parent, name)
}

// removeEmpty removes an empty directory.
func removeEmpty(parent *os.File, name string) error {
	path := filepath.Join(parent.Name(), name)
	switch err := unix.Unlinkat(int(parent.Fd()), name, unix.AT_REMOVEDIR); {
	case err == nil, errors.Is(err, unix.ENOENT):
		return nil
	case errors.Is(err, unix.EBUSY):
		return fmt.Errorf("%s: %w; nothing is removed", path, errMounted)
	case errors.Is(err, unix.ENOTEMPTY), errors.Is(err, unix.EEXIST):
		return fmt.Errorf("%s has files on the node's disk: they are kept, and it is tried again; move them away", path)
	default:
		return fmt.Errorf("remove the directory %s: %w", path, err)
	}
}
