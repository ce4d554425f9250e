package porttest

import (
	"errors"
	"fmt"
	"net"
	"testing"

	"golang.org/x/sys/unix"
)

// A reserved port can be bound only by listeners that request it by its number. For all other sockets it is in use.
func TestReserve(t *testing.T) {
	port := Reserve(t)
	for range 2 {
		l, err := net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", port))
		if err != nil {
			t.Fatalf("listen on the port: %v", err)
		}
		if err := l.Close(); err != nil {
			t.Fatal(err)
		}
		if err := bindTo(port); !errors.Is(err, unix.EADDRINUSE) {
			t.Errorf("while no process listens, another socket is bound to the port: %v; want that it is in use", err)
		}
	}
}

// bindTo binds a socket to the port without SO_REUSEADDR.
func bindTo(port int) error {
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return err
	}
	return errors.Join(unix.Bind(fd, &unix.SockaddrInet4{Port: port, Addr: [4]byte{127, 0, 0, 1}}), unix.Close(fd))
}
