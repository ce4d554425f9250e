package openfile

import (
	"errors"
	"fmt"
	"io/fs"
)

// Errors of opening.
var (
	// ErrLeased is the error of a file on which another process holds a lease (fcntl(2), F_SETLEASE). The kernel asks
	// that process to release it and ends the lease after /proc/sys/fs/lease-break-time, so a later attempt succeeds.
	ErrLeased = errors.New("another process holds a lease on it; it can be opened once that is given up, 45 s at the most")
	// ErrOutside is the error of OpenBeneath if the name leads out of the directory or through a symbolic link.
	ErrOutside = errors.New("the path leads through a symbolic link or out of its directory")
)

// ErrNoData is the error of reading a file whose reader would have to wait for data.
var ErrNoData = errors.New("it has no data now and would keep its reader waiting")

// KindError is the error of opening a file that isn't regular.
type KindError struct {
	Path string
	// Mode is the file's mode.
	Mode fs.FileMode
	// Kind describes the kind of file: "named pipe".
	Kind string
}

func (e *KindError) Error() string {
	return fmt.Sprintf("%s isn't a regular file: it is a %s", e.Path, e.Kind)
}

// SocketKindError is the error of opening a file as a Unix socket that isn't one.
type SocketKindError struct {
	Path string
	// Kind describes the kind of file: "directory".
	Kind string
}

func (e *SocketKindError) Error() string {
	return fmt.Sprintf("%s isn't a Unix socket: it is a %s", e.Path, e.Kind)
}

// SizeError is the error of reading a file that is larger than the limit.
type SizeError struct {
	// Size is the file's size in bytes, as far as it is known. It is above Limit.
	Size, Limit int64
}

func (e *SizeError) Error() string {
	return fmt.Sprintf("is %d bytes; at most %d are read", e.Size, e.Limit)
}
