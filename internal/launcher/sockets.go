package launcher

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

const (
	// socketDir is the default directory of the daemons' sockets.
	socketDir = "/run/podstream"
	// The names of the sockets. Beside each one is a lock file, NAME.lock.
	podconfigdSocket, podexecdSocket = "podconfigd.sock", "podexecd.sock"
	lockSuffix                       = ".lock"
	// maxSocketFiles bounds how many files of the directory of the sockets are looked at.
	maxSocketFiles = 1024
	// socketDirMode is sticky: podconfigd's group can make its socket, and can't remove podexecd's.
	socketDirMode = 0o1775
)

// makeSocketDir makes the directory of the sockets. A socket or lock of podconfigd is its user's: an older version had another
// user. podexecd's lock is made here, as podconfigd could otherwise make and hold it, and keep podexecd from starting.
func makeSocketDir(dir string, owner identity) error {
	if err := checkSocketDir(dir, owner); err != nil {
		return err
	}
	own := os.Geteuid()
	if err := makeDir(dir, socketDirMode, identity{own, owner.gid}); err != nil {
		return err
	}
	err := eachEntry(dir, maxSocketFiles, func(at int, name string) error {
		switch {
		case strings.HasPrefix(name, podconfigdSocket):
			return give(at, name, owner, unix.S_IFREG, unix.S_IFSOCK)
		case strings.HasPrefix(name, podexecdSocket) && owner.uid != own:
			return removeForeign(at, name, own)
		default:
			return nil
		}
	})
	if err != nil {
		return err
	}
	path := filepath.Join(dir, podexecdSocket+lockSuffix)
	fd, err := unix.Open(path, unix.O_RDWR|unix.O_CREAT|unix.O_NOFOLLOW|unix.O_NONBLOCK|unix.O_CLOEXEC, 0o600)
	if err != nil {
		return &fs.PathError{Op: "open", Path: path, Err: err}
	}
	return unix.Close(fd)
}

// removeForeign removes a file in podexecd's place that is another user's. No other user can replace a file of this process's
// user there, as the directory is sticky.
func removeForeign(at int, name string, own int) error {
	var stat unix.Stat_t
	if err := unix.Fstatat(at, name, &stat, unix.AT_SYMLINK_NOFOLLOW); err != nil || int(stat.Uid) == own {
		return nil //nolint:nilerr // It is gone, or stays.
	}
	flags := 0
	if stat.Mode&unix.S_IFMT == unix.S_IFDIR {
		flags = unix.AT_REMOVEDIR
	}
	if err := unix.Unlinkat(at, name, flags); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("user %d has made this file, which can't be removed: %w", stat.Uid, err)
	}
	return nil
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
		if !strings.HasPrefix(name, podconfigdSocket) && !strings.HasPrefix(name, podexecdSocket) {
			return fmt.Errorf("PODSTREAM_RUN_DIR: %s has the file %q, so it isn't the daemons' own, and podconfigd would get write access to it; "+
				"set a directory that is empty or doesn't exist, such as %s", dir, name, filepath.Join(dir, "podstream"))
		}
	}
	return nil
}

// isSocketDir reports whether the directory has the owner and mode that makeSocketDir sets, for this version's user of
// podconfigd, the fallback, or an older version's.
func isSocketDir(info fs.FileInfo, owner identity) bool {
	stat, ok := info.Sys().(*syscall.Stat_t)
	return ok && stat.Mode&0o7777 == socketDirMode && int(stat.Uid) == os.Geteuid() &&
		slices.Contains([]int{owner.gid, fallbackID, formerID}, int(stat.Gid))
}
