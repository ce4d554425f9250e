package access

import (
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"
)

// socketPath is the environment variable that makes TestPeerThatEnded connect its descriptor 3, for another process
// that runs the test.
const socketPath = "PODSTREAM_TEST_CONNECT"

// A process connects, ends, and leaves its socket to another process: a third process may have its pid now, so the
// pid proves nothing.
func TestPeerThatEnded(t *testing.T) {
	if path := os.Getenv(socketPath); path != "" {
		if err := unix.Connect(3, &unix.SockaddrUnix{Name: path}); err != nil {
			t.Fatal(err)
		}
		return
	}
	listener, err := net.Listen("unix", filepath.Join(t.TempDir(), "s"))
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	fd, err := unix.Socket(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	socket := os.NewFile(uintptr(fd), "socket")
	defer socket.Close()
	child := exec.Command(os.Args[0], "-test.run=^TestPeerThatEnded$")
	child.Env = append(os.Environ(), socketPath+"="+listener.Addr().String())
	child.ExtraFiles = []*os.File{socket}
	if out, err := child.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	conn, err := listener.Accept()
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if _, err := unix.GetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_PEERPIDFD); err == unix.ENOPROTOOPT {
		return // Linux before 6.5.
	}
	if !isElsewhere(conn, int32(os.Getpid())) { //nolint:gosec // Pids have 22 bits.
		t.Error("a connection whose process has ended is taken for the process that has its pid now")
	}
}

// The process that made a connection and holds it hasn't ended.
func TestPeerThatRuns(t *testing.T) {
	conn := connected(t, "unix", filepath.Join(t.TempDir(), "s"))
	if isElsewhere(conn, int32(os.Getpid())) { //nolint:gosec // Pids have 22 bits.
		t.Error("this process is elsewhere, or has ended")
	}
}
