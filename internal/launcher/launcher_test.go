package launcher

import (
	"bufio"
	"context"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// program is a script in the place of a daemon. It prints its name, its process and its arguments, and runs until SIGTERM.
const program = `#!/bin/sh
case "$*" in
*--check-config*--max-pods=bad*) echo "max-pods: not a number" >&2; exit 2 ;;
*--check-config*) echo "effective configuration"; exit 0 ;;
esac
trap 'echo stopped $(basename $0); exit 0' TERM
echo started $(basename $0) $$ "socket:$NOTIFY_SOCKET" "$@"
while :; do sleep 0.05; done
`

// launch is a Launcher with scripts, and what they print.
type launch struct {
	t     *testing.T
	lines *bufio.Scanner
	// systemd receives the launcher's messages.
	systemd *net.UnixConn
	code  chan int
	stop  context.CancelFunc
}

func start(t *testing.T, args ...string) *launch {
	t.Helper()
	dir := t.TempDir()
	for _, name := range []string{"podconfigd", "podexecd"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(program), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	read, write, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	socket := filepath.Join(dir, "notify.sock")
	systemd, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: socket, Net: "unixgram"})
	if err != nil {
		t.Fatal(err)
	}
	t.Setenv("NOTIFY_SOCKET", socket)
	ctx, stop := context.WithCancel(t.Context())
	l := &launch{t: t, lines: bufio.NewScanner(read), systemd: systemd, code: make(chan int, 1), stop: stop}
	go func() {
		l.code <- (&Launcher{Dir: dir, RunDir: dir, Stdout: write, Stderr: write}).Run(ctx, args)
		_ = write.Close()
	}()
	t.Cleanup(func() { stop(); _, _ = read.Close(), systemd.Close() })
	return l
}

// await returns the next line that begins with the text.
func (l *launch) await(text string) string {
	l.t.Helper()
	for l.lines.Scan() {
		if strings.HasPrefix(l.lines.Text(), text) {
			return l.lines.Text()
		}
	}
	l.t.Fatalf("no line begins with %q: %v", text, l.lines.Err())
	return ""
}

// started awaits the start of programs, in any order, and returns their process IDs.
func (l *launch) started(names ...string) map[string]int {
	l.t.Helper()
	out := map[string]int{}
	for range names {
		fields := strings.Fields(l.await("started "))
		pid, err := strconv.Atoi(fields[2])
		if err != nil {
			l.t.Fatal(err)
		}
		out[fields[1]] = pid
		if fields[3] != "socket:" {
			l.t.Errorf("%s has the socket of systemd that is the launcher's: %s", fields[1], fields[3])
		}
	}
	for _, name := range names {
		if out[name] == 0 {
			l.t.Fatalf("started %v; want %v", out, names)
		}
	}
	return out
}

func (l *launch) ends(want int) {
	l.t.Helper()
	for l.lines.Scan() {
	}
	if code := <-l.code; code != want {
		l.t.Errorf("exit code %d; want %d", code, want)
	}
}

// TestRunBoth: both programs run until the launcher's end, and each one that ends is started again alone.
func TestRunBoth(t *testing.T) {
	l := start(t, "--config=/c")
	first := l.started("podconfigd", "podexecd")
	message := make([]byte, 1024)
	if n, err := l.systemd.Read(message); err != nil || !strings.Contains(string(message[:n]), "READY=1") {
		t.Errorf("systemd receives %q, error %v", message[:n], err)
	}
	if err := syscall.Kill(first["podexecd"], syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	l.await(`time=`) // The launcher's line about the start or the end.
	second := l.started("podexecd")
	if second["podexecd"] == first["podexecd"] {
		t.Error("podexecd has the same process")
	}
	if err := syscall.Kill(first["podconfigd"], 0); err != nil {
		t.Errorf("podconfigd ended with podexecd: %v", err)
	}
	l.stop()
	stopped := map[string]bool{l.await("stopped "): true, l.await("stopped "): true}
	if !stopped["stopped podconfigd"] || !stopped["stopped podexecd"] {
		t.Errorf("stopped %v", stopped)
	}
	l.ends(0)
}

// TestCheckBeforeStart: nothing is started if one program rejects its flags, and its message is printed.
func TestCheckBeforeStart(t *testing.T) {
	l := start(t, "--config=/c", "--max-pods=bad")
	l.await("max-pods: not a number")
	l.await("kubelet: podexecd can't start with these flags and this configuration: exit status 2")
	for l.lines.Scan() {
		if strings.HasPrefix(l.lines.Text(), "started") {
			t.Error(l.lines.Text())
		}
	}
	l.ends(1)
}

func TestCheckConfig(t *testing.T) {
	l := start(t, "--config=/c", "--check-config")
	l.await("# podconfigd --config=/c --root-dir=/var/lib/kubelet/podconfigd")
	l.await("effective configuration")
	l.await("# podexecd --config=/c --root-dir=/var/lib/kubelet")
	l.await("effective configuration")
	l.ends(0)
}

func TestVersion(t *testing.T) {
	l := start(t, "--version")
	l.await("Kubernetes v1.37.2")
	l.ends(0)
	l = start(t, "--version=x")
	l.await("kubelet: --version=x")
	l.ends(1)
}

// TestMissingProgram: a program that isn't there is named.
func TestMissingProgram(t *testing.T) {
	t.Setenv("PATH", "")
	var out strings.Builder
	if code := (&Launcher{Dir: t.TempDir(), Stdout: &out, Stderr: &out}).Run(t.Context(), []string{"--config=/c"}); code != 1 {
		t.Errorf("exit code %d", code)
	}
	for _, name := range []string{"podconfigd", "podexecd"} {
		if want := fmt.Sprintf("kubelet: %s is neither in ", name); !strings.Contains(out.String(), want) {
			t.Errorf("no %q in:\n%s", want, out.String())
		}
	}
}
