package porttest

import (
	"fmt"
	"testing"

	"golang.org/x/sys/unix"
)

// Reserve returns a port of 127.0.0.1 that the kernel gives to no other process until the test ends. A process that
// requests it by its number, with SO_REUSEADDR as all of Go's listeners do, can listen on it, one at a time.
func Reserve(t testing.TB) (port int) {
	t.Helper()
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatalf("reserve a port: %v", err)
	}
	t.Cleanup(func() {
		if err := unix.Close(fd); err != nil {
			t.Errorf("release a port: %v", err)
		}
	})
	if port, err = bind(fd); err != nil {
		t.Fatalf("reserve a port: %v", err)
	}
	return port
}

// bind binds the socket to a free port, without listening. The kernel then doesn't choose this port for other sockets.
func bind(fd int) (port int, err error) {
	if err := unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_REUSEADDR, 1); err != nil {
		return 0, err
	}
	if err := unix.Bind(fd, &unix.SockaddrInet4{Addr: [4]byte{127, 0, 0, 1}}); err != nil {
		return 0, err
	}
	bound, err := unix.Getsockname(fd)
	if err != nil {
		return 0, err
	}
	address, ok := bound.(*unix.SockaddrInet4)
	if !ok {
		return 0, fmt.Errorf("the socket has the address %v", bound)
	}
	return address.Port, nil
}
