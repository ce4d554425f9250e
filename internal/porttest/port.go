package porttest

import (
	"fmt"
	"testing"

	"golang.org/x/sys/unix"
)

// Reserve is a port of 127.0.0.1 that nobody on the machine is given by chance until the test ends. Who asks for it by its number, with
// SO_REUSEADDR as all of Go's listeners have it, can listen on it, one after the other.
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

// bind binds the socket to a free port, without listening. Where the kernel chooses a port itself it then takes that one for used.
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
