package openfile

import (
	"errors"
	"net"
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"
)

// listen makes a socket that goes away with the test.
func listen(t *testing.T, path string) *net.UnixListener {
	t.Helper()
	l, err := net.Listen("unix", path)
	must(t, err)
	t.Cleanup(func() { l.Close() })
	return l.(*net.UnixListener)
}

// TestOpenSocket: a socket beneath the directory is opened; what isn't one, links, and what lies outside aren't. Relative links within
// the directory are followed by OpenLinkedSocket, on kernels with openat2.
func TestOpenSocket(t *testing.T) {
	kernels(t, func(t *testing.T) {
		base, err := os.MkdirTemp("", "socket") // t.TempDir is too long for the name of a socket.
		must(t, err)
		defer os.RemoveAll(base)
		dir := filepath.Join(base, "dir")
		must(t, os.MkdirAll(filepath.Join(dir, "sub"), 0o700))
		listen(t, filepath.Join(dir, "sub", "s"))
		listen(t, filepath.Join(base, "outside"))
		write(t, filepath.Join(dir, "file"), "")
		must(t, unix.Mkfifo(filepath.Join(dir, "fifo"), 0o600))
		must(t, os.Symlink("sub/s", filepath.Join(dir, "link")))
		must(t, os.Symlink("../outside", filepath.Join(dir, "out")))
		must(t, os.Symlink(filepath.Join(dir, "sub"), filepath.Join(dir, "absolute")))
		_, err = unix.Openat2(unix.AT_FDCWD, "/", &unix.OpenHow{Flags: unix.O_PATH})
		modern := err == nil && t.Name() == "TestOpenSocket/openat2"
		for name, linked := range map[string]bool{
			"sub/s": true, "link": modern, "out": false, "absolute/s": false, "../outside": false, "sub/../sub/s": false,
			"file": false, "fifo": false, "sub": false, "none": false,
		} {
			plain := name == "sub/s"
			for _, open := range []struct {
				call func(dir, name string) (*Socket, error)
				want bool
			}{{OpenSocketBeneath, plain}, {OpenLinkedSocket, linked}} {
				s, err := open.call(dir, name)
				if (err == nil) != open.want {
					t.Errorf("%s: %v; want success %t", name, err, open.want)
				}
				if err == nil {
					conn, err := s.Dial(t.Context())
					must(t, err)
					conn.Close()
					s.Close()
				}
			}
		}
		var kind *SocketKindError
		if _, err := OpenSocketBeneath(dir, "fifo"); !errors.As(err, &kind) || kind.Kind != "named pipe" {
			t.Errorf("a FIFO: %v", err)
		}
		if _, err := OpenLinkedSocket(dir, "out"); !errors.Is(err, ErrOutside) {
			t.Errorf("a link that leads out: %v", err)
		}
	})
}

// TestSocketSame: a socket that was made again at the same path is another one while the first is open.
func TestSocketSame(t *testing.T) {
	dir, err := os.MkdirTemp("", "socket")
	must(t, err)
	defer os.RemoveAll(dir)
	open := func() *Socket {
		t.Helper()
		s, err := OpenSocketBeneath(dir, "s")
		must(t, err)
		t.Cleanup(func() { s.Close() })
		return s
	}
	path := filepath.Join(dir, "s")
	first := listen(t, path)
	a, b := open(), open()
	if !a.Same(b) || a.Owner() != uint32(os.Geteuid()) || a.Bound().IsZero() {
		t.Errorf("one socket: %+v and %+v", a.stat, b.stat)
	}
	must(t, b.Close())
	if conn, err := b.Dial(t.Context()); !errors.Is(err, os.ErrClosed) {
		t.Errorf("a closed socket dials: %v, %v", conn, err)
	}
	for range 20 {
		must(t, first.Close())
		first = listen(t, path)
		if open().Same(a) {
			t.Fatal("a new socket is the old one")
		}
	}
}
