package launcher

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"

	"golang.org/x/sys/unix"
)

const (
	// socketDir is the default directory of the daemons' sockets.
	socketDir = "/run/podstream"
	// The names of the sockets. Beside each one is a lock file, NAME.lock.
	podconfigdSocket, podexecdSocket = "podconfigd.sock", "podexecd.sock"
	lockSuffix                       = ".lock"
	// maxSocketFiles bounds how many files of another program's directory are looked at.
	maxSocketFiles = 1024
	// socketDirMode is sticky: podconfigd's group can make its socket, and can't remove podexecd's. In a directory with
	// closedDirMode it can't make files.
	socketDirMode, closedDirMode = 0o1775, 0o1755
	// maxSocketPath is the kernel's bound of a socket's path, with its final zero.
	maxSocketPath = len(unix.RawSockaddrUnix{}.Path)
)

// runDir is the directory of the daemons' sockets. podconfigd's user can make files in it, and those can be anything.
type runDir struct {
	path string
	// owner is podconfigd's user.
	owner identity
	log   *slog.Logger

	// mu guards the directory's mode, and moved.
	mu sync.Mutex
	// moved is how many entries of other users were in podexecd's places.
	moved int
}

// checkSocketPath returns an error for a directory in which the daemons' sockets can't be.
func checkSocketPath(dir string) error {
	longest := filepath.Join(dir, podconfigdSocket)
	switch {
	case !filepath.IsAbs(dir):
		return fmt.Errorf("PODSTREAM_RUN_DIR: %q isn't an absolute path", dir)
	case strings.Contains(dir, ","):
		return fmt.Errorf("PODSTREAM_RUN_DIR: %q has a comma, which separates the addresses of podconfigd", dir)
	case len(longest) >= maxSocketPath:
		return fmt.Errorf("PODSTREAM_RUN_DIR: %s is too long for a socket's path, which has less than %d bytes", longest, maxSocketPath)
	}
	return nil
}

// make makes the directory.
func (d *runDir) make() error {
	if err := checkSocketDir(d.path, d.owner); err != nil {
		return err
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.setMode()
}

// setMode makes the directory, and sets its owner and mode. The caller holds mu.
func (d *runDir) setMode() error {
	mode := uint32(socketDirMode)
	if d.moved >= maxForeign {
		mode = closedDirMode
	}
	return makeDir(d.path, mode, identity{os.Geteuid(), d.owner.gid})
}

// open opens the directory.
func (d *runDir) open() (*os.File, error) {
	fd, err := unix.Open(d.path, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, &fs.PathError{Op: "open directory", Path: d.path, Err: err}
	}
	return os.NewFile(uintptr(fd), d.path), nil
}

// forPodconfigd prepares the directory for podconfigd. A socket or lock of it is its user's: an older version had another user.
func (d *runDir) forPodconfigd() error {
	if err := d.make(); err != nil {
		return err
	}
	dir, err := d.open()
	if err != nil {
		return err
	}
	defer dir.Close()
	for _, name := range []string{podconfigdSocket, podconfigdSocket + lockSuffix} {
		if err := give(int(dir.Fd()), name, d.owner, unix.S_IFREG, unix.S_IFSOCK); err != nil {
			return fmt.Errorf("%s: %w", filepath.Join(d.path, name), err)
		}
	}
	return nil
}

// forPodexecd prepares the directory for podexecd, which doesn't run, and for the launcher: what is in the places of podexecd's
// files is this process's. podexecd's lock is made here, as podconfigd's user could otherwise make and hold it, and keep
// podexecd from starting. An entry that stays in podexecd's place is no error: podexecd may start all the same.
func (d *runDir) forPodexecd() error {
	if err := d.make(); err != nil {
		return err
	}
	dir, err := d.open()
	if err != nil {
		return err
	}
	defer dir.Close()
	for _, p := range podexecdPlaces {
		err := d.claim(int(dir.Fd()), p)
		switch {
		case err != nil && p.name == noticesName:
			return fmt.Errorf("%s: %w", filepath.Join(d.path, p.name), err)
		case err != nil:
			d.log.Warn("podexecd may not start", "file", filepath.Join(d.path, p.name), "error", err)
		}
	}
	return makeDir(filepath.Join(d.path, noticesName), 0o755, identity{os.Geteuid(), os.Getegid()})
}

// checkSocketDir returns an error if the directory exists and is another program's, such as /run: its mode must stay. One that
// a launcher made before may have any files.
func checkSocketDir(dir string, owner identity) error {
	if dir == socketDir {
		return nil
	}
	file, err := os.Open(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("PODSTREAM_RUN_DIR: %w", err)
	}
	defer file.Close()
	if info, err := file.Stat(); err != nil || isSocketDir(info, owner) {
		return err
	}
	names, err := file.Readdirnames(maxSocketFiles)
	if err != nil && !errors.Is(err, io.EOF) {
		return fmt.Errorf("PODSTREAM_RUN_DIR: %w", err)
	}
	for _, name := range names {
		if name != noticesName && !strings.HasPrefix(name, podconfigdSocket) && !strings.HasPrefix(name, podexecdSocket) {
			return fmt.Errorf("PODSTREAM_RUN_DIR: %s has the file %q, so it isn't the daemons' own, and podconfigd would get write access to it; "+
				"set a directory that is empty or doesn't exist, such as %s", dir, name, filepath.Join(dir, "podstream"))
		}
	}
	return nil
}

// isSocketDir reports whether the directory has the owner and a mode that a launcher sets, for this version's user of
// podconfigd, the fallback, or an older version's.
func isSocketDir(info fs.FileInfo, owner identity) bool {
	stat, ok := info.Sys().(*syscall.Stat_t)
	return ok && (stat.Mode&0o7777 == socketDirMode || stat.Mode&0o7777 == closedDirMode) && int(stat.Uid) == os.Geteuid() &&
		slices.Contains([]int{owner.gid, fallbackID, formerID}, int(stat.Gid))
}
