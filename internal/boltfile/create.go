package boltfile

import (
	"fmt"
	"os"
	"path/filepath"

	"go.etcd.io/bbolt"
)

// Create makes a file with the content that fill writes, and replaces a file of that name: completely or, on an
// error, not at all. A process that has the former file open continues with that, and has to close it. Only one
// process at a time runs fill and, once the file is complete and before it gets its name, makeRoom, which moves the
// former file; with a nil makeRoom the former file is lost.
//
// A File that is returned with an error has the name and is good, but the disk failed to confirm the name.
func Create(path string, opts Options, fill func(tx *bbolt.Tx) error, makeRoom func() error) (*File, error) {
	draft := path + ".new"
	file, err := openLocked(draft, os.O_RDWR|os.O_CREATE)
	if err != nil {
		return nil, refused(err)
	}
	opts.ReadOnly = false
	f := &File{opts: opts, file: file}
	if err = f.fill(fill); err == nil && makeRoom != nil {
		err = makeRoom()
	}
	if err == nil {
		err = os.Rename(draft, path)
	}
	if err != nil {
		// Before the lock is released: afterwards the draft may be another process's.
		_ = os.Remove(draft)
		_ = f.Close()
		return nil, refused(err)
	}
	f.path = path
	if opts.NoSync {
		return f, nil
	}
	return f, refused(syncDir(path))
}

// fill starts with an empty draft, whatever another process may have left.
func (f *File) fill(fill func(tx *bbolt.Tx) error) error {
	if err := f.file.Truncate(0); err != nil {
		return err
	}
	if err := f.file.Chmod(mode); err != nil {
		return err
	}
	if err := f.openDB(); err != nil {
		return err
	}
	return f.Update(fill)
}

// syncDir makes a rename in the directory of path durable.
func syncDir(path string) error {
	dir, err := os.Open(filepath.Dir(path))
	if err != nil {
		return err
	}
	defer dir.Close()
	if err := dir.Sync(); err != nil {
		return fmt.Errorf("sync the directory of %s: %w", path, err)
	}
	return nil
}
