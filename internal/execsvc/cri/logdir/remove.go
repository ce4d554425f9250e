package logdir

import (
	"errors"
	"io/fs"

	"golang.org/x/sys/unix"

	"github.com/podstream/podstream/internal/openfile"
)

// removalRounds is how often RemoveAll looks again for files: the log may be rotated or compressed meanwhile.
const removalRounds = 3

// RemoveAll removes the log called name and its rotated logs. Files that are gone are no error, and neither is a
// directory that a link has replaced: the log isn't in it. Directories, and files beyond the names that are read, stay
// until the pod's logs are removed.
func RemoveAll(logsDir, name string) error {
	l, err := Open(logsDir, name)
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, openfile.ErrOutside) || errors.Is(err, unix.ENOTDIR) {
		return nil
	}
	if err != nil {
		return err
	}
	defer l.Close()
	for range removalRounds {
		if err := l.Remove(l.Name); err != nil && !errors.Is(err, unix.EISDIR) {
			return err
		}
		list, err := l.Rotated()
		if err != nil && !errors.Is(err, ErrTooManyFiles) {
			return err
		}
		if len(list) == 0 {
			break
		}
		for _, r := range list {
			if err := l.Remove(r.Name); err != nil && !errors.Is(err, unix.EISDIR) {
				return err
			}
		}
	}
	return nil
}
