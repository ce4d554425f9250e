package kubeletdir

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"
)

// lockName is the name of the locked file in --kubelet-dir. It stays after podexecd ends.
const lockName = "podexecd.lock"

// maxHolder is how many bytes of the locked file are read.
const maxHolder = 8 << 10

// holder is the content of the locked file: what its process is. It is shown, and decides nothing.
type holder struct {
	PID     int    `json:"pid"`
	RootDir string `json:"rootDir"`
}

// lock locks the directory for this process, until the file is closed. Nil: the file system is read-only, and has no such file.
func lock(dir, rootDir string, log *slog.Logger) (*os.File, error) {
	path := filepath.Join(dir, lockName)
	const flags = unix.O_NOFOLLOW | unix.O_NONBLOCK | unix.O_CLOEXEC
	file, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR|flags, 0o600)
	readOnly := errors.Is(err, unix.EROFS)
	if readOnly {
		// A broken disk must not prevent the start: the pods that run are watched and shown.
		log.Error("--kubelet-dir is on a read-only file system: no pod can start, and no volume can be removed, until it is writable", "path", dir)
		file, err = os.OpenFile(path, os.O_RDONLY|flags, 0)
		if errors.Is(err, fs.ErrNotExist) {
			return nil, nil //nolint:nilnil // Without a file there is no lock, which the comment says.
		}
	}
	if err != nil {
		return nil, fmt.Errorf("lock --kubelet-dir: %w", err)
	}
	err = take(file, dir)
	if err == nil && !readOnly {
		if writing := write(file, holder{PID: os.Getpid(), RootDir: rootDir}); writing != nil {
			log.Warn("the lock of --kubelet-dir doesn't name this process", "path", path, "error", writing)
		}
	}
	if err != nil {
		_ = file.Close()
		return nil, err
	}
	return file, nil
}

// take takes the lock of the file. Its error names the process that has it.
func take(file *os.File, dir string) error {
	info, err := file.Stat()
	if err != nil {
		return fmt.Errorf("lock --kubelet-dir: %w", err)
	}
	if !info.Mode().IsRegular() {
		return fmt.Errorf("lock --kubelet-dir: %s isn't a regular file; remove it", file.Name())
	}
	err = unix.Flock(int(file.Fd()), unix.LOCK_EX|unix.LOCK_NB)
	if errors.Is(err, unix.EWOULDBLOCK) {
		return fmt.Errorf("another podexecd uses --kubelet-dir %s%s: stop it, or give this one another --kubelet-dir", dir, described(file))
	}
	if err != nil {
		return fmt.Errorf("lock --kubelet-dir %s: %w", dir, err)
	}
	return nil
}

// described returns what the locked file says of its process; "" if it says nothing.
func described(file *os.File) string {
	data, err := io.ReadAll(io.NewSectionReader(file, 0, maxHolder))
	var h holder
	if err != nil || json.Unmarshal(data, &h) != nil || h.PID <= 0 {
		return ""
	}
	return fmt.Sprintf(", process %d with --root-dir %.300q", h.PID, h.RootDir)
}

func write(file *os.File, h holder) error {
	data, err := json.Marshal(h)
	if err != nil {
		return err
	}
	if err := file.Truncate(0); err != nil {
		return err
	}
	_, err = file.WriteAt(append(data, '\n'), 0)
	return err
}
