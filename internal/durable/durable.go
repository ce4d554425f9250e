// Package durable replaces files so that a power cut leaves the earlier content or the new one, and makes names in a directory
// durable. Unlike renameio, Write has one draft for each file, so that a process which is killed often leaves no more than that.
package durable

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"
)

// Write replaces the file at path, and returns when the disk has it. The content is first written to draft, a path in the same
// directory, which no other caller may use meanwhile; links there aren't followed. After an error the draft is removed, and the file
// has its earlier content, or the new one.
func Write(path, draft string, data []byte, mode fs.FileMode) error {
	err := writeSynced(draft, data, mode)
	if err == nil {
		err = os.Rename(draft, path)
	}
	if err != nil {
		if left := os.Remove(draft); !errors.Is(left, fs.ErrNotExist) {
			err = errors.Join(err, left)
		}
		return err
	}
	return SyncDir(filepath.Dir(path))
}

// writeSynced writes a file that doesn't exist, or whose content doesn't count, and syncs it.
func writeSynced(path string, data []byte, mode fs.FileMode) (err error) {
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_TRUNC|unix.O_NOFOLLOW|unix.O_CLOEXEC, mode)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	if _, err := f.Write(data); err != nil {
		return err
	}
	return f.Sync()
}

// SyncDir makes the names in a directory durable: files that were made, renamed or removed there.
func SyncDir(path string) error {
	f, err := os.Open(path)
	if err != nil {
		return fmt.Errorf("open a directory to sync it: %w", err)
	}
	if err := errors.Join(f.Sync(), f.Close()); err != nil {
		return fmt.Errorf("sync the directory %s: %w", path, err)
	}
	return nil
}
