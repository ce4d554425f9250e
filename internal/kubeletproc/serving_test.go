package kubeletproc

import (
	"errors"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestServing: a kubelet in a program of any name is found by its sockets in the directory, while it listens on them.
func TestServing(t *testing.T) {
	program := build(t)
	for _, name := range sockets {
		dir := t.TempDir()
		socket := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(socket), 0o700); err != nil {
			t.Fatal(err)
		}
		search := Search{Dir: dir}
		if found, err := search.Find(t.Context()); found != nil || err != nil {
			t.Errorf("%s: no socket: %v, %v", name, found, err)
		}
		// podexecd's own.
		listener, err := net.Listen("unix", socket)
		if err != nil {
			t.Fatal(err)
		}
		listener.(*net.UnixListener).SetUnlinkOnClose(false)
		if found, err := search.Find(t.Context()); found != nil || err != nil {
			t.Errorf("%s: its own: %v, %v", name, found, err)
		}
		_ = listener.Close()
		if found, err := search.Find(t.Context()); found != nil || err != nil {
			t.Errorf("%s: a socket that a kubelet left: %v, %v", name, found, err)
		}
		if err := os.Remove(socket); err != nil {
			t.Fatal(err)
		}
		pid := run(t, program, dir, "/usr/local/bin/k3s", "agent", "listen="+socket)
		found, err := search.Find(t.Context())
		if err != nil || found == nil || found.PID != pid || !strings.Contains(found.Why, "it serves "+socket) {
			t.Errorf("%s: %v, %v; want process %d", name, found, err, pid)
		}
		// A link that a device plugin has made.
		elsewhere := t.TempDir()
		if err := errors.Join(os.MkdirAll(filepath.Dir(filepath.Join(elsewhere, name)), 0o700), os.Symlink(socket, filepath.Join(elsewhere, name))); err != nil {
			t.Fatal(err)
		}
		if found, err := (Search{Dir: elsewhere}).Find(t.Context()); found != nil || err != nil {
			t.Errorf("%s: a link: %v, %v", name, found, err)
		}
		if found, err := (Search{Dir: t.TempDir()}).Find(t.Context()); found != nil || err != nil {
			t.Errorf("%s: another directory: %v, %v", name, found, err)
		}
	}
}
