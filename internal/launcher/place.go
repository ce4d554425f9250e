package launcher

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	"golang.org/x/sys/unix"
)

const (
	// storeName is the name of podconfigd's directory in --root-dir.
	storeName = "podconfigd"
	// maxStoreFiles bounds the files of podconfigd's directory that are looked at.
	maxStoreFiles = 1024
)

// findPrograms returns the first directory that has both daemons: that of the launcher, and then the usual ones. PATH isn't
// used: it is the environment's.
func findPrograms() (string, error) {
	var dirs []string
	if self, err := os.Executable(); err == nil {
		dirs = append(dirs, filepath.Dir(self))
	}
	dirs = append(dirs, "/usr/local/bin", "/usr/bin")
	for _, dir := range dirs {
		if isProgram(filepath.Join(dir, "podconfigd")) && isProgram(filepath.Join(dir, "podexecd")) {
			return dir, nil
		}
	}
	return "", fmt.Errorf("podconfigd and podexecd are in none of the directories %q", dirs)
}

func isProgram(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.Mode().IsRegular() && info.Mode()&0o111 != 0
}

// makeRoot makes the directory of --root-dir, as the kubelet has it. It may be a link to another disk.
func makeRoot(c *Commands) error {
	if err := os.MkdirAll(c.RootDir, 0o750); err != nil {
		return fmt.Errorf("--root-dir: %w", err)
	}
	return nil
}

// makeStore makes podconfigd's directory. owner is podconfigd's user and group.
func makeStore(c *Commands, owner identity) error {
	if err := makeRoot(c); err != nil {
		return err
	}
	if err := makeDir(c.StoreDir, 0o700, owner); err != nil {
		return err
	}
	return giveFiles(c.StoreDir, owner)
}

// makeDir makes a directory, and sets its owner and mode. A symbolic link in its place is an error: it would give another
// directory away.
func makeDir(path string, mode uint32, owner identity) error {
	if err := unix.Mkdir(path, 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
		return &fs.PathError{Op: "mkdir", Path: path, Err: err}
	}
	fd, err := unix.Open(path, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err != nil {
		return &fs.PathError{Op: "open directory", Path: path, Err: err}
	}
	defer func() { _ = unix.Close(fd) }()
	var stat unix.Stat_t
	if err := unix.Fstat(fd, &stat); err != nil {
		return &fs.PathError{Op: "stat", Path: path, Err: err}
	}
	if owner != (identity{int(stat.Uid), int(stat.Gid)}) {
		if err := unix.Fchown(fd, owner.uid, owner.gid); err != nil {
			return &fs.PathError{Op: "chown", Path: path, Err: err}
		}
	}
	if err := unix.Fchmod(fd, mode); err != nil {
		return &fs.PathError{Op: "chmod", Path: path, Err: err}
	}
	return nil
}

// giveFiles gives the files of podconfigd's directory to its user: another start may have run it as root, or as the user of an
// older version. Links, and files that have another name elsewhere, stay as they are.
func giveFiles(dir string, owner identity) error {
	return eachEntry(dir, maxStoreFiles, func(at int, name string) error {
		return give(at, name, owner, unix.S_IFREG)
	})
}

// eachEntry calls f for the entries of a directory, at most for limit, with the directory's descriptor.
func eachEntry(dir string, limit int, f func(at int, name string) error) error {
	fd, err := unix.Open(dir, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err != nil {
		return &fs.PathError{Op: "open directory", Path: dir, Err: err}
	}
	file := os.NewFile(uintptr(fd), dir)
	defer file.Close()
	names, err := file.Readdirnames(limit)
	if err != nil && !errors.Is(err, io.EOF) {
		return err
	}
	for _, name := range names {
		if err := f(fd, name); err != nil {
			return fmt.Errorf("%s: %w", filepath.Join(dir, name), err)
		}
	}
	return nil
}

// give gives a file to a user, if it is of one of the types and has no other name. It checks and changes one open file: the
// directory's owner may put another file, such as a link, in its place meanwhile.
func give(at int, name string, owner identity, types ...uint32) error {
	fd, err := openAt(at, name, unix.O_PATH)
	if err != nil {
		return nil // It is gone, or a mount.
	}
	defer func() { _ = unix.Close(fd) }()
	var stat unix.Stat_t
	if err := unix.Fstat(fd, &stat); err != nil || owner == (identity{int(stat.Uid), int(stat.Gid)}) ||
		!slices.Contains(types, stat.Mode&unix.S_IFMT) || stat.Nlink != 1 {
		return nil
	}
	if err := unix.Fchownat(fd, "", owner.uid, owner.gid, unix.AT_EMPTY_PATH); err != nil {
		return fmt.Errorf("chown: %w", err)
	}
	return nil
}
