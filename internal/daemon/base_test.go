package daemon

import (
	"log/slog"
	"net"
	"path/filepath"
	"testing"

	"github.com/podstream/podstream/internal/access"
)

// TestOpen: Open takes the lock on --root-dir and listens; a second one fails until the first is closed.
func TestOpen(t *testing.T) {
	dir := t.TempDir()
	open := func(socket, metrics string) (*Base, error) {
		f := &Flags{
			RootDir: dir, Listen: []string{"unix://" + filepath.Join(dir, socket)}, MetricsAddress: metrics, LogFormat: "text",
			MaxConnectionsPerPeer: 1, MaxStreamsPerConnection: 1, MaxRequestsPerSecond: 1,
		}
		return f.Open(func(string) access.Role { return access.Operator }, slog.New(slog.DiscardHandler))
	}
	first, err := open("a", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = first.Listeners[0].Close() }()
	taken := first.metrics.Addr().String()
	if b, err := open("b", ""); err == nil {
		b.Close()
		t.Error("two daemons open one --root-dir; want an error")
	}
	first.Close()
	if conn, err := net.Dial("tcp", taken); err == nil {
		_ = conn.Close()
		t.Error("--metrics-address still answers after Close")
	}
	if b, err := open("c", "no port"); err == nil {
		b.Close()
		t.Error("Open with a wrong --metrics-address succeeds; want an error")
	}
	last, err := open("d", "")
	if err != nil {
		t.Fatalf("Open after Close and after a failure: %v; want the lock to be free", err)
	}
	_ = last.Listeners[0].Close()
	last.Close()
}
