package boltfile

import (
	"errors"
	"fmt"
	"slices"
	"syscall"

	"golang.org/x/sys/unix"
)

var (
	// ErrDamaged is wrapped by errors of Open, View and Update if the file isn't what bbolt once wrote. Stores wrap it if their records
	// aren't what they wrote.
	ErrDamaged = errors.New("the store is damaged")
	// ErrLocked is wrapped by errors of Open and Create if another process has the file open, or is making it.
	ErrLocked = errors.New("the store is in use by another process")
	// ErrUnwritable is wrapped by errors of Open for writing, Update, Create and SetAside if the disk is full, fails or may not be
	// written to. What was there before is still there.
	ErrUnwritable = errors.New("the store can't be written")
)

// FormatError is a store's word that a file has another layout than the one that it knows.
type FormatError struct{ Found, Known int }

func (e *FormatError) Error() string {
	return fmt.Sprintf("the store has format %d; this version reads and writes format %d", e.Found, e.Known)
}

// Unusable tells whether err says that a file, though it can be read, is of no use and is to be set aside.
func Unusable(err error) bool {
	return errors.Is(err, ErrDamaged) || errors.As(err, new(*FormatError))
}

// refused marks an error that is the disk's or the administrator's refusal to be written to.
func refused(err error) error {
	if errors.Is(err, ErrUnwritable) || !slices.ContainsFunc([]syscall.Errno{
		unix.EROFS, unix.ENOSPC, unix.EDQUOT, unix.EACCES, unix.EPERM, unix.EIO, unix.EFBIG,
	}, func(e syscall.Errno) bool { return errors.Is(err, e) }) {
		return err
	}
	return fmt.Errorf("%w: %w", ErrUnwritable, err)
}
