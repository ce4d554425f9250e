package rig_test

import (
	"net"
	"path/filepath"
	"testing"
	"time"

	"github.com/podstream/podstream/test/rig"
)

// A daemon on a busy machine may accept a connection, and answer late. Dial doesn't give the connection up meanwhile: a
// call that was sent on it would fail.
func TestDialIsPatient(t *testing.T) {
	socket := filepath.Join(t.TempDir(), "s")
	l, err := net.ListenUnix("unix", &net.UnixAddr{Name: socket})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = l.Close() }()
	conn, err := rig.Dial("unix://" + socket)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close() }()
	conn.Connect()
	accept := func(within time.Duration) error {
		if err := l.SetDeadline(time.Now().Add(within)); err != nil {
			t.Fatal(err)
		}
		server, err := l.Accept()
		if err == nil {
			t.Cleanup(func() { _ = server.Close() })
		}
		return err
	}
	if err := accept(rig.Patience(10 * time.Second)); err != nil {
		t.Fatal(err)
	}
	if accept(time.Second) == nil {
		t.Error("a second connection came within a second; want the first one to stay open")
	}
}
