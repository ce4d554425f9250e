package launcher

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

const (
	// storeName is the name of podconfigd's directory in --root-dir.
	storeName = "podconfigd"
	// socketDir is the directory of the daemons' sockets.
	socketDir = "/run/podstream"
	// podconfigdID is podconfigd's user and group, as in its unit.
	podconfigdID = 65532
	// maxStoreFiles bounds the files of podconfigd's directory that are looked at.
	maxStoreFiles = 1024
	// maxSocketFiles bounds those of the directory of the sockets.
	maxSocketFiles = 1024
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

// reduced returns the attributes of a podconfigd process without root's rights, and its user: it can read all files, as the
// kubelet's manifests and kubeconfig are root's alone, and write only its own. If this process can't grant that, as it
// isn't root or lacks a capability, the user is its own.
func reduced() (syscall.SysProcAttr, int) {
	own := os.Geteuid()
	hdr := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	var data [2]unix.CapUserData
	if own != 0 || unix.Capget(&hdr, &data[0]) != nil {
		return syscall.SysProcAttr{}, own
	}
	const needed = 1<<unix.CAP_DAC_READ_SEARCH | 1<<unix.CAP_SETUID | 1<<unix.CAP_SETGID | 1<<unix.CAP_CHOWN
	if data[0].Effective&needed != needed {
		return syscall.SysProcAttr{}, own
	}
	return syscall.SysProcAttr{
		Credential: &syscall.Credential{Uid: podconfigdID, Gid: podconfigdID}, AmbientCaps: []uintptr{unix.CAP_DAC_READ_SEARCH},
	}, podconfigdID
}

// makeDirs makes the daemons' directories. owner is podconfigd's user and group.
func makeDirs(c *Commands, sockets string, owner int) error {
	// As the kubelet has it. It may be a link to another disk.
	if err := os.MkdirAll(c.RootDir, 0o750); err != nil {
		return fmt.Errorf("--root-dir: %w", err)
	}
	if err := makeDir(c.StoreDir, 0o700, owner, owner); err != nil {
		return err
	}
	if err := giveFiles(c.StoreDir, owner); err != nil {
		return err
	}
	if err := onlySockets(sockets); err != nil {
		return err
	}
	// Sticky: podconfigd can't remove podexecd's socket.
	return makeDir(sockets, 0o1775, os.Geteuid(), owner)
}

// onlySockets returns an error if the directory exists and is another program's, such as /run: its mode must stay.
func onlySockets(dir string) error {
	if dir == socketDir {
		return nil
	}
	file, err := os.Open(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	defer file.Close()
	names, err := file.Readdirnames(maxSocketFiles)
	if err != nil && !errors.Is(err, io.EOF) {
		return err
	}
	for _, name := range names {
		if !strings.HasPrefix(name, "podconfigd.sock") && !strings.HasPrefix(name, "podexecd.sock") {
			return fmt.Errorf("PODSTREAM_RUN_DIR: %s has %s, and must be a directory of the daemons' sockets only", dir, name)
		}
	}
	return nil
}

// makeDir makes a directory, and sets its owner and mode. A symbolic link in its place is an error: it would give another
// directory away.
func makeDir(path string, mode uint32, uid, gid int) error {
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
	if int(stat.Uid) != uid || int(stat.Gid) != gid {
		if err := unix.Fchown(fd, uid, gid); err != nil {
			return &fs.PathError{Op: "chown", Path: path, Err: err}
		}
	}
	if err := unix.Fchmod(fd, mode); err != nil {
		return &fs.PathError{Op: "chmod", Path: path, Err: err}
	}
	return nil
}

// giveFiles gives the files of podconfigd's directory to its user: another start may have run it as root. Links, and files
// that have another name elsewhere, stay as they are.
func giveFiles(dir string, owner int) error {
	fd, err := unix.Open(dir, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err != nil {
		return &fs.PathError{Op: "open directory", Path: dir, Err: err}
	}
	file := os.NewFile(uintptr(fd), dir)
	defer file.Close()
	names, err := file.Readdirnames(maxStoreFiles)
	if err != nil && !errors.Is(err, io.EOF) {
		return err
	}
	for _, name := range names {
		var stat unix.Stat_t
		if err := unix.Fstatat(fd, name, &stat, unix.AT_SYMLINK_NOFOLLOW); err != nil || int(stat.Uid) == owner ||
			stat.Mode&unix.S_IFMT != unix.S_IFREG || stat.Nlink != 1 {
			continue
		}
		if err := unix.Fchownat(fd, name, owner, owner, unix.AT_SYMLINK_NOFOLLOW); err != nil {
			return &fs.PathError{Op: "chown", Path: filepath.Join(dir, name), Err: err}
		}
	}
	return nil
}
