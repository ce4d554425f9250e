package logdir

import (
	"errors"
	"os"

	"golang.org/x/sys/unix"
)

// Writing is whether a process has a file open for writing.
type Writing int

// The answers. WritersUnknown is that of a file system without leases.
const (
	NoWriter Writing = iota
	HasWriter
	WritersUnknown
)

// WritersOf reports whether a process may still write to the file, which is open for reading. The runtime writes a
// rotated log's last lines after it has opened the new log.
//
// The kernel grants a read lease only on a file without writers. The lease is released at once: a process that opens
// the file for writing in between waits for microseconds.
func WritersOf(f *os.File) Writing {
	_, err := unix.FcntlInt(f.Fd(), unix.F_SETLEASE, unix.F_RDLCK)
	switch {
	case err == nil:
		_, _ = unix.FcntlInt(f.Fd(), unix.F_SETLEASE, unix.F_UNLCK)
		return NoWriter
	case errors.Is(err, unix.EAGAIN):
		return HasWriter
	}
	return WritersUnknown
}
