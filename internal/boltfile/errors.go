package boltfile

import (
	"errors"
	"fmt"
	"slices"
	"syscall"

	"golang.org/x/sys/unix"
)

var (
	// ErrDamaged is wrapped by errors of Open, View and Update if the file's structure isn't bbolt's. Stores wrap it
	// if their records are invalid.
	ErrDamaged = errors.New("the store is damaged")
	// ErrLocked is wrapped by errors of Open and Create if another process has the file open, or is making it.
	ErrLocked = errors.New("the store is in use by another process")
	// ErrUnwritable is wrapped by errors of Open for writing, Update, Create and SetAside if the disk is full, fails
	// or is read-only. The former content stays.
	ErrUnwritable = errors.New("the store can't be written")
	// ErrGone is wrapped by errors of Update and Named if the open file no longer has its name: it was removed, or
	// another file has the name. Its content is lost when it is closed.
	ErrGone = errors.New("the store's file was removed or replaced while it was open")
)

// FormatError is a store's error for a file whose layout has another version.
type FormatError struct{ Found, Known int }

func (e *FormatError) Error() string {
	return fmt.Sprintf("the store has format %d; this version reads and writes format %d", e.Found, e.Known)
}

// Unusable reports whether err means that a readable file is unusable and is to be set aside.
func Unusable(err error) bool {
	return errors.Is(err, ErrDamaged) || errors.As(err, new(*FormatError))
}

// refused marks an error of writing to the disk.
func refused(err error) error {
	if errors.Is(err, ErrUnwritable) || !slices.ContainsFunc([]syscall.Errno{
		unix.EROFS, unix.ENOSPC, unix.EDQUOT, unix.EACCES, unix.EPERM, unix.EIO, unix.EFBIG,
	}, func(e syscall.Errno) bool { return errors.Is(err, e) }) {
		return err
	}
	return fmt.Errorf("%w: %w", ErrUnwritable, err)
}
