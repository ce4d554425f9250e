package logindtest

import (
	"bufio"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// config lets every client do everything, as the tests run as one user.
const config = `<busconfig><type>system</type><listen>unix:path=%s</listen><auth>EXTERNAL</auth>
<policy context="default"><allow send_destination="*" eavesdrop="true"/><allow receive_sender="*"/><allow own="*"/><allow user="*"/>
<allow send_type="signal"/></policy></busconfig>`

// Bus is a bus that runs until the test ends.
type Bus struct {
	// Socket is its socket.
	Socket string

	t      testing.TB
	daemon *exec.Cmd
}

// NewBus starts a bus. The test is skipped on a machine without dbus-daemon, unless all tests are required.
func NewBus(t testing.TB) *Bus {
	t.Helper()
	program, err := exec.LookPath("dbus-daemon")
	switch {
	case err == nil:
	case os.Getenv("PODSTREAM_REQUIRE_RUNTIME") != "":
		t.Fatalf("%v: apt-get install dbus-daemon", err)
	default:
		t.Skipf("%v: apt-get install dbus-daemon", err)
	}
	// The path of a socket is short.
	dir, err := os.MkdirTemp("", "bus")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	b := &Bus{Socket: filepath.Join(dir, "socket"), t: t}
	if err := os.WriteFile(filepath.Join(dir, "config"), fmt.Appendf(nil, config, b.Socket), 0o600); err != nil {
		t.Fatal(err)
	}
	b.daemon = exec.Command(program, "--config-file="+filepath.Join(dir, "config"), "--nofork", "--print-address")
	b.start()
	t.Cleanup(b.Stop)
	return b
}

// start starts the daemon, and returns when it listens.
func (b *Bus) start() {
	b.t.Helper()
	out, err := b.daemon.StdoutPipe()
	if err != nil {
		b.t.Fatal(err)
	}
	if err := b.daemon.Start(); err != nil {
		b.t.Fatal(err)
	}
	if line, err := bufio.NewReader(out).ReadString('\n'); err != nil || !strings.HasPrefix(line, "unix:") {
		b.t.Fatalf("dbus-daemon prints %q, %v; want its address", line, err)
	}
}

// Stop ends the bus.
func (b *Bus) Stop() {
	if b.daemon.ProcessState == nil {
		_ = b.daemon.Process.Kill()
		_ = b.daemon.Wait()
	}
}

// Restart ends the bus, and starts it again.
func (b *Bus) Restart() {
	b.t.Helper()
	b.Stop()
	b.daemon = exec.Command(b.daemon.Path, b.daemon.Args[1:]...)
	b.start()
}
