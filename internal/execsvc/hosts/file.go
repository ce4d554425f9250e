package hosts

import (
	"bytes"
	"errors"
	"os"

	"golang.org/x/sys/unix"
)

// fileMode lets every user of a container read the file, whatever this process's umask is.
const fileMode = 0o644

// maxBlank bounds the blank lines that are written over what a container may have added.
const maxBlank = 1 << 20

// update makes the file's content text. A file that says it already isn't touched; else it is written in place, as a container's mount
// holds the file itself, not its name. A kill in between does no harm: the file is put right before the next container is made.
func update(path string, text []byte) (err error) {
	file, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE|unix.O_NOFOLLOW, fileMode)
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
		had := make([]byte, len(text))
		if _, err := file.ReadAt(had, 0); err != nil {
			return err
		}
		if bytes.Equal(had, text) {
			return nil
		}
	}
	// In one write, and not cut before: who reads meanwhile never finds it empty. Nor does he find half a line of what was longer.
	blank := max(0, min(old, maxBlank)-int64(len(text)))
	if _, err := file.WriteAt(append(text, bytes.Repeat([]byte("\n"), int(blank))...), 0); err != nil {
		return err
	}
	return file.Truncate(int64(len(text)))
}
