package grpcserver

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strconv"

	"golang.org/x/sys/unix"
)

// setMode sets the mode of an inherited socket's file, unless it is right. The directory may belong to another user,
// such as podconfigd's: what stands at the path must be a socket, and no link is followed.
func setMode(path string, mode fs.FileMode) error {
	fd, err := unix.Open(path, unix.O_PATH|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err != nil {
		return fmt.Errorf("open the inherited socket's file: %w", err)
	}
	defer func() { _ = unix.Close(fd) }()
	var now unix.Stat_t
	if err := unix.Fstat(fd, &now); err != nil {
		return fmt.Errorf("read the mode of the inherited socket: %w", err)
	}
	switch {
	case now.Mode&unix.S_IFMT != unix.S_IFSOCK:
		return errors.New("what is at the path of the inherited socket isn't a socket")
	case fs.FileMode(now.Mode)&fs.ModePerm == mode:
		return nil
	}
	// The kernel doesn't change the mode by a descriptor of O_PATH itself.
	if err := os.Chmod("/proc/self/fd/"+strconv.Itoa(fd), mode); err != nil {
		return fmt.Errorf("set the mode of the inherited socket to %04o, which its owner (SocketUser=) can do: %w", mode, err)
	}
	return nil
}
