package hosts

import (
	"bytes"
	"errors"
	"os"

	"golang.org/x/sys/unix"

	"github.com/podstream/podstream/internal/openfile"
)

// fileMode lets every user of a container read the file, whatever the umask.
const fileMode = 0o644

// maxBlank bounds the blank lines that overwrite what a container may have appended.
const maxBlank = 1 << 20

// update sets the file's content to text. It writes only on a difference, and in place: a container's mount refers to
// the file itself, not to its name. After a crash in between, the next container's creation repairs the file.
func update(path string, text []byte) (err error) {
	file, err := open(path)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, file.Close()) }()
	if err := file.Chmod(fileMode); err != nil {
		return err
	}
	info, err := file.Stat()
	if err != nil {
		return err
	}
	old := info.Size()
	if old == int64(len(text)) {
		current := make([]byte, len(text))
		if _, err := file.ReadAt(current, 0); err != nil {
			return err
		}
		if bytes.Equal(current, text) {
			return nil
		}
	}
	// One write without a truncation first: a concurrent reader finds neither an empty file nor half a line of a
	// longer one.
	blank := max(0, min(old, maxBlank)-int64(len(text)))
	if _, err := file.WriteAt(append(text, bytes.Repeat([]byte("\n"), int(blank))...), 0); err != nil {
		return err
	}
	return file.Truncate(int64(len(text)))
}

// open opens or creates the file. It opens no other kind of file, and does not wait for a lease that a container may
// hold.
func open(path string) (*os.File, error) {
	fd, err := unix.Open(path, unix.O_PATH|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if errors.Is(err, unix.ENOENT) {
		return os.OpenFile(path, os.O_RDWR|os.O_CREATE|os.O_EXCL, fileMode)
	}
	if err != nil {
		return nil, &os.PathError{Op: "open", Path: path, Err: err}
	}
	defer func() { _ = unix.Close(fd) }()
	return openfile.Reopen(fd, path, unix.O_RDWR)
}
