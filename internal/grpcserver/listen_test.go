package grpcserver_test

import (
	"errors"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/podstream/podstream/internal/grpcserver"
)

// socketDir is short enough for a socket's path, which t.TempDir isn't always.
func socketDir(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "ps")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	return dir
}

// listen opens the addresses, and closes them when the test ends.
func listen(t *testing.T, addresses ...string) []net.Listener {
	t.Helper()
	listeners, err := grpcserver.Listen(addresses)
	if err != nil {
		t.Fatalf("Listen(%q): %v; want listeners", addresses, err)
	}
	t.Cleanup(func() {
		for _, l := range listeners {
			_ = l.Close()
		}
	})
	return listeners
}

func TestListenMakesPrivateSocket(t *testing.T) {
	path := filepath.Join(socketDir(t), "new", "dir", "s")
	listen(t, "unix://"+path)
	info, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	if want := fs.ModeSocket | 0o600; info.Mode() != want {
		t.Errorf("the socket's mode is %v; want %v", info.Mode(), want)
	}
	// The umask is the process's own again.
	other := filepath.Join(filepath.Dir(path), "file")
	if err := os.WriteFile(other, nil, 0o644); err != nil {
		t.Fatal(err)
	}
	if info, _ = os.Stat(other); info.Mode()&0o400 == 0 || info.Mode()&0o044 == 0 {
		t.Errorf("a file made afterwards with mode 0644 has %v; want the umask as it was before", info.Mode())
	}
}

// stale is the socket file of a killed daemon.
func stale(t *testing.T, path string) {
	t.Helper()
	dead, err := net.ListenUnix("unix", &net.UnixAddr{Name: path, Net: "unix"})
	if err != nil {
		t.Fatal(err)
	}
	dead.SetUnlinkOnClose(false)
	if err := dead.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Lstat(path); err != nil {
		t.Fatalf("there is no stale socket: %v", err)
	}
}

func TestListenReplacesStaleSocket(t *testing.T) {
	path := filepath.Join(socketDir(t), "s")
	stale(t, path)
	listen(t, "unix://"+path)
	conn, err := net.Dial("unix", path)
	if err != nil {
		t.Fatalf("dial the socket: %v; want the new listener", err)
	}
	_ = conn.Close()
}

// TestListenLeavesOthersSocket: the end of a daemon removes its own socket, and not the one that a service manager has
// put in its place.
func TestListenLeavesOthersSocket(t *testing.T) {
	path := filepath.Join(socketDir(t), "s")
	for _, replaced := range []bool{false, true} {
		l := listen(t, "unix://"+path)[0]
		if replaced {
			if err := os.Remove(path); err != nil {
				t.Fatal(err)
			}
			stale(t, path)
		}
		for range 2 {
			if err := l.Close(); err != nil {
				t.Errorf("close: %v", err)
			}
		}
		if _, err := os.Lstat(path); (err == nil) != replaced {
			t.Errorf("after the end, with replaced=%t: %v", replaced, err)
		}
	}
}

// TestListenRefuses: an error names the address, and a failed attempt breaks nothing.
func TestListenRefuses(t *testing.T) {
	dir := socketDir(t)
	live := "unix://" + filepath.Join(dir, "live")
	listen(t, live)
	file := filepath.Join(dir, "file")
	if err := os.WriteFile(file, []byte("precious"), 0o600); err != nil {
		t.Fatal(err)
	}
	longest := filepath.Join(dir, strings.Repeat("x", 107-len(dir)-1))
	for _, tc := range []struct{ name, address, want string }{
		{"a live socket", live, "another process listens there already"},
		{"a directory that isn't writable", "unix:///proc/s", "whose directory must be writable: open /proc/s.lock"},
		{"a file", "unix://" + file, "isn't a socket"},
		{"a directory", "unix://" + dir, "isn't a socket"},
		{"a long path", "unix://" + longest + "x", "has 108 bytes; the kernel takes at most 107"},
		{"tcp", "tcp://127.0.0.1:0", "mutual TLS"},
		{"a relative path", "unix://relative", "unix:///path"},
		{"no scheme", "/run/s.sock", "unix:///path"},
		{"nothing", "", "unix:///path"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			listeners, err := grpcserver.Listen([]string{tc.address})
			if err == nil || !strings.Contains(err.Error(), tc.want) || !strings.Contains(err.Error(), tc.address) {
				t.Errorf("Listen(%q): %v, %v; want an error with the address and %q", tc.address, listeners, err, tc.want)
			}
		})
	}
	if _, err := grpcserver.Listen([]string{"tcp://localhost:1"}); !errors.Is(err, grpcserver.ErrTCP) {
		t.Errorf("Listen on tcp: %v; want ErrTCP", err)
	}
	if text, err := os.ReadFile(file); err != nil || string(text) != "precious" {
		t.Errorf("the file holds %q, %v, after Listen; want it untouched", text, err)
	}
	listen(t, "unix://"+longest)
}

// TestListenAllOrNone: if one address can't be opened, the others are closed again.
func TestListenAllOrNone(t *testing.T) {
	good := "unix://" + filepath.Join(socketDir(t), "good")
	if _, err := grpcserver.Listen([]string{good, "unix://bad"}); err == nil {
		t.Fatal("Listen with a bad address succeeds; want an error")
	}
	if got := len(listen(t, good, good+"2")); got != 2 {
		t.Errorf("Listen with two addresses gives %d listeners; want 2", got)
	}
}

// TestListenLocks: a socket that looks dead is left alone while another daemon is about to replace it, and one that
// listens keeps its path until it is closed, even if its socket file is gone.
func TestListenLocks(t *testing.T) {
	path := filepath.Join(socketDir(t), "s")
	refused := func(what string) {
		t.Helper()
		_, err := grpcserver.Listen([]string{"unix://" + path})
		if err == nil || !strings.Contains(err.Error(), "another process listens there already, or is about to: it holds "+path+".lock") {
			t.Errorf("Listen %s: %v; want an error that names the lock", what, err)
		}
	}
	stale(t, path)
	starting, err := os.OpenFile(path+".lock", os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		t.Fatal(err)
	}
	if err := unix.Flock(int(starting.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil {
		t.Fatal(err)
	}
	refused("while another daemon starts")
	if _, err := os.Lstat(path); err != nil {
		t.Errorf("the socket that another daemon deals with: %v; want it left alone", err)
	}
	_ = starting.Close()
	// As a wider umask or an administrator made it: any user could hold it.
	if err := os.Chmod(path+".lock", 0o666); err != nil {
		t.Fatal(err)
	}

	l := listen(t, "unix://"+path)[0]
	if info, err := os.Stat(path + ".lock"); err != nil || info.Mode() != 0o600 {
		t.Errorf("the lock file is %v, %v; want mode 0600", info, err)
	}
	refused("while another listens")
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	refused("while another listens whose socket file is gone")
	if err := l.Close(); err != nil {
		t.Errorf("close the listener: %v", err)
	}
	listen(t, "unix://"+path)
}

// TestListenRace: another user that makes a file as soon as a dead socket's path is free doesn't keep a daemon from listening there.
func TestListenRace(t *testing.T) {
	path := filepath.Join(socketDir(t), "s")
	stop, stopped := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(stopped)
		for {
			select {
			case <-stop:
				return
			default:
				_ = unix.Mkdir(path, 0o700)
			}
		}
	}()
	defer func() { close(stop); <-stopped }()
	for range 200 {
		// As the launcher makes it.
		if err := unix.Mknod(path+".dead", unix.S_IFSOCK|0o600, 0); err != nil {
			t.Fatal(err)
		}
		_ = unix.Rmdir(path)
		for unix.Renameat2(unix.AT_FDCWD, path+".dead", unix.AT_FDCWD, path, 0) != nil {
			_ = unix.Rmdir(path)
		}
		listeners, err := grpcserver.Listen([]string{"unix://" + path})
		if err != nil {
			t.Fatal(err)
		}
		if got := listeners[0].Addr().String(); got != path {
			t.Errorf("the address is %q; want %q", got, path)
		}
		conn, err := net.Dial("unix", path)
		if err != nil {
			t.Fatal(err)
		}
		_ = conn.Close()
		_ = listeners[0].Close()
	}
}
