package grpcserver_test

import (
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/podstream/podstream/internal/access"
	"github.com/podstream/podstream/internal/grpcserver"
)

// inherit returns a listening socket as a service manager passes it, with its file of the given mode.
func inherit(t *testing.T, path string, mode fs.FileMode) net.Listener {
	t.Helper()
	l, err := net.ListenUnix("unix", &net.UnixAddr{Name: path, Net: "unix"})
	if err != nil {
		t.Fatal(err)
	}
	l.SetUnlinkOnClose(false)
	file, err := l.File()
	if err != nil {
		t.Fatal(err)
	}
	_ = l.Close()
	t.Cleanup(func() { _ = file.Close() })
	out, err := net.FileListener(file)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(path, mode); err != nil {
		t.Fatal(err)
	}
	return out
}

// An inherited socket is locked, gets the mode that access needs, and outlives its listener.
func TestInherited(t *testing.T) {
	others, err := access.New(access.Config{AllowUIDs: []uint32{12345}})
	if err != nil {
		t.Fatal(err)
	}
	for name, tc := range map[string]struct {
		access     *access.Access
		mode, want fs.FileMode
	}{
		"widened":  {others, 0o600, 0o666},
		"narrowed": {nil, 0o666, 0o600},
		"as it is": {nil, 0o600, 0o600},
	} {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "s")
			inherited := map[string]net.Listener{path: inherit(t, path, tc.mode)}
			address := "unix://" + filepath.Dir(path) + "/./s"
			listeners, err := grpcserver.ListenInherited(tc.access, []string{address}, inherited)
			if err != nil || len(listeners) != 1 || len(inherited) != 0 {
				t.Fatalf("%d listeners, %v, and %d sockets are left; want one, and none left", len(listeners), err, len(inherited))
			}
			info, err := os.Lstat(path)
			if err != nil || info.Mode().Perm() != tc.want {
				t.Errorf("the socket's mode is %v, %v; want %v", info.Mode(), err, tc.want)
			}
			if _, err := grpcserver.Listen([]string{"unix://" + path}); err == nil || !strings.Contains(err.Error(), path+".lock") {
				t.Errorf("a second daemon gets %v; want an error that names the lock", err)
			}
			if err := listeners[0].Close(); err != nil {
				t.Error(err)
			}
			conn, err := net.Dial("unix", path)
			if err != nil {
				t.Fatalf("the socket is gone with the listener: %v", err)
			}
			_ = conn.Close()
		})
	}
}

// What the directory's other owners put in the place of the socket isn't changed.
func TestInheritedReplaced(t *testing.T) {
	dir := t.TempDir()
	path, victim := filepath.Join(dir, "s"), filepath.Join(dir, "victim")
	if err := os.WriteFile(victim, nil, 0o644); err != nil {
		t.Fatal(err)
	}
	for name, put := range map[string]func() error{
		"link": func() error { return os.Symlink(victim, path) },
		"file": func() error { return os.Link(victim, path) },
		"gone": func() error { return nil },
	} {
		t.Run(name, func(t *testing.T) {
			l := inherit(t, path, 0o666)
			defer func() { _ = l.Close() }()
			if err := os.Remove(path); err != nil {
				t.Fatal(err)
			}
			if err := put(); err != nil {
				t.Fatal(err)
			}
			defer func() { _ = os.Remove(path) }()
			if _, err := grpcserver.ListenInherited(nil, []string{"unix://" + path}, map[string]net.Listener{path: l}); err == nil {
				t.Error("a socket that isn't at its path is served; want an error")
			}
			info, err := os.Lstat(victim)
			if err != nil || info.Mode().Perm() != 0o644 {
				t.Errorf("the file beside it has now %v, %v", info.Mode(), err)
			}
		})
	}
}
