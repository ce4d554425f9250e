package logdir

import (
	"errors"
	"io/fs"
	"path/filepath"

	"golang.org/x/sys/unix"

	"github.com/podstream/podstream/internal/openfile"
)

// NextAttempt returns the attempt after those that have logs in the directory, a path relative to logsDir; without logs
// it is 0. The logs of the last attempt are kept. Those of earlier ones are removed, because nothing else removes them. A
// directory that a link has replaced has no logs.
func NextAttempt(logsDir, dir string) (uint32, error) {
	l, err := Open(logsDir, filepath.Join(dir, "0.log"))
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, openfile.ErrOutside) || errors.Is(err, unix.ENOTDIR) {
		return 0, nil
	}
	if err != nil {
		return 0, err
	}
	defer l.Close()
	attempts := map[string]uint32{}
	next := uint32(0)
	err = l.each(func(e fs.DirEntry) {
		if n, ok := Attempt(e.Name()); ok && !e.IsDir() {
			attempts[e.Name()] = n
			next = max(next, n+1)
		}
	})
	if err != nil && !errors.Is(err, ErrTooManyFiles) {
		return 0, err
	}
	for name, n := range attempts {
		if n+1 == next {
			continue
		}
		if err := l.Remove(name); err != nil && !errors.Is(err, unix.EISDIR) {
			return 0, err
		}
	}
	return next, nil
}
