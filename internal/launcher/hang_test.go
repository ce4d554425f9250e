package launcher

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
	testingclock "k8s.io/utils/clock/testing"

	"github.com/podstream/podstream/internal/logtest"
)

// TestHang: a daemon that sends no signs of progress gets SIGABRT, by which it prints what hangs, and SIGKILL if it goes on.
// It is started again alone. After that, systemd gets signs of the launcher's progress.
func TestHang(t *testing.T) {
	for _, deaf := range []string{"", "--deaf"} {
		t.Run(deaf, func(t *testing.T) {
			t.Setenv("PODEXECD_FLAGS", "--hangs-once="+filepath.Join(t.TempDir(), "hung")+" "+deaf)
			t.Setenv("WATCHDOG_USEC", "1000000")
			l := startWith(t, &Launcher{watchdog: 2 * time.Second}, source)
			first := l.started("podconfigd", "podexecd")
			l.await(`msg="the daemon makes no progress, and is killed" daemon=kubelet child=podexecd watchdog=2s signal=aborted`)
			if deaf == "" {
				l.await("daemon=podexecd SIGABRT: abort")
				l.await("daemon=podexecd goroutine ")
				l.await(`child=podexecd result="exit code 2"`)
			} else {
				l.await("child=podexecd watchdog=2s signal=killed")
				l.await(`child=podexecd result="signal: killed"`)
			}
			second := l.started("podexecd")
			if pid(t, second["podexecd"]) == pid(t, first["podexecd"]) {
				t.Error("podexecd has the same process")
			}
			if err := unix.Kill(pid(t, first["podconfigd"]), 0); err != nil {
				t.Errorf("podconfigd ended with podexecd: %v", err)
			}
			// The launcher may have more to log, and sends systemd nothing before it has done that.
			logged := make(chan struct{})
			go func() {
				defer close(logged)
				for l.lines.Scan() {
				}
			}()
			l.notified(fmt.Sprintf("; podexecd: up as %d", pid(t, second["podexecd"])))
			l.notified("WATCHDOG=1")
			l.stop()
			<-logged
			l.ends(0)
		})
	}
}

// TestHangBlockedLog: a daemon that hangs, and ignores SIGABRT, is killed also while the launcher's log can't be written.
func TestHangBlockedLog(t *testing.T) {
	t.Setenv("PODEXECD_FLAGS", "--hangs-once="+filepath.Join(t.TempDir(), "hung")+" --deaf")
	l := startWith(t, &Launcher{watchdog: 2 * time.Second}, source)
	first := l.started("podconfigd", "podexecd")
	// No line is read until the process has ended.
	process, err := unix.PidfdOpen(pid(t, first["podexecd"]), 0)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = unix.Close(process) }()
	polled := []unix.PollFd{{Fd: int32(process), Events: unix.POLLIN}}
	n, err := unix.Poll(polled, 20_000)
	for errors.Is(err, unix.EINTR) { // SIGCHLD, for example.
		n, err = unix.Poll(polled, 20_000)
	}
	if err != nil || n != 1 {
		t.Errorf("the daemon goes on: %d, %v", n, err)
	}
	l.await("child=podexecd watchdog=2s signal=killed")
	l.await("the daemon ended, and is started again")
	l.started("podexecd")
	l.stop()
	l.ends(0)
}

// TestAlive: the launcher has no progress while a daemon hangs.
func TestAlive(t *testing.T) {
	children := []*child{{name: "podconfigd"}, {name: "podexecd"}}
	if err := alive(children); err != nil {
		t.Errorf("without a daemon that hangs: %v", err)
	}
	children[1].hangs.Store(true)
	if err := alive(children); err == nil || !strings.Contains(err.Error(), "podexecd") {
		t.Errorf("with podexecd hanging: %v; want an error with its name", err)
	}
}

// TestWatch: what counts as a sign of progress. A status doesn't, a process that isn't ready needs none, and neither does a
// launcher that was stopped for longer than the period find a daemon hanging whose messages wait.
func TestWatch(t *testing.T) {
	const period = time.Second
	for name, tc := range map[string]struct {
		first, repeated string
		hangs           bool
	}{
		"progress":           {"READY=1", "WATCHDOG=1", false},
		"progress and more":  {"READY=1\nSTATUS=up", "STATUS=x\nWATCHDOG=1", false},
		"no progress":        {"READY=1", "STATUS=x", true},
		"a wrong value":      {"READY=1", "WATCHDOG=0", true},
		"not ready":          {"STATUS=loading", "STATUS=loading", false},
		"a long message":     {"READY=1", "WATCHDOG=1\nSTATUS=" + strings.Repeat("x", 2*maxNotice), false},
		"no line of its own": {"READY=1", "STATUS=x WATCHDOG=1", true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			n, err := listenNotices(filepath.Join(t.TempDir(), "n"), os.Getuid(), os.Getgid())
			if err != nil {
				t.Fatal(err)
			}
			var log logtest.Buffer
			c := &child{name: "d", watchdog: period, ready: make(chan struct{}), log: slog.New(slog.NewTextHandler(&log, nil))}
			ended := make(chan struct{})
			go func() { defer close(ended); c.watch(n) }()
			conn, err := net.Dial("unixgram", n.path)
			if err != nil {
				t.Fatal(err)
			}
			defer conn.Close()
			text := tc.first
			for end := time.Now().Add(3 * period); time.Now().Before(end) && !c.hangs.Load(); time.Sleep(period / 16) {
				if _, err := conn.Write([]byte(text)); err != nil {
					t.Fatal(err)
				}
				text = tc.repeated
			}
			if got := c.hangs.Load(); got != tc.hangs {
				t.Errorf("it hangs: %v; want %v:\n%s", got, tc.hangs, log.String())
			}
			n.close()
			<-ended
		})
	}
}

// TestNotices: only the daemon's user can send to its socket, also if the umask is 0, and a file in its place is replaced.
func TestNotices(t *testing.T) {
	defer unix.Umask(unix.Umask(0))
	path := filepath.Join(t.TempDir(), "n")
	if err := os.WriteFile(path, nil, 0o666); err != nil {
		t.Fatal(err)
	}
	n, err := listenNotices(path, os.Getuid(), os.Getgid())
	if err != nil {
		t.Fatal(err)
	}
	defer n.close()
	if info, err := os.Lstat(path); err != nil || info.Mode() != os.ModeSocket|0o600 {
		t.Errorf("the socket has the mode %v, %v", info.Mode(), err)
	}
}

// TestOutputAfterEnd: everything that a daemon wrote before its end is read, however slow the reader is. A process that keeps the
// pipe open isn't waited for, and what is read after the end is bounded, as that process may write without end.
func TestOutputAfterEnd(t *testing.T) {
	stdout, stderr, err := (&child{}).pipes(&exec.Cmd{})
	if err != nil {
		t.Fatal(err)
	}
	defer stdout.close()
	defer stderr.close()
	want := strings.Repeat("goroutine 1 [running]:\n", 2500)
	if _, err := io.WriteString(stdout.w, want+"last"); err != nil {
		t.Fatal(err)
	}
	// The other end stays open.
	stdout.end()
	var out bytes.Buffer
	if err := (&lines{daemon: "d", to: &out}).copy(stdout); err != nil {
		t.Error(err)
	}
	if got := strings.ReplaceAll(out.String(), "daemon=d ", ""); got != want+"last\n" {
		t.Errorf("%d bytes of %d; the end is %q", len(got), len(want)+5, got[max(0, len(got)-30):])
	}
	if _, err := stderr.w.Write(make([]byte, 4096)); err != nil {
		t.Fatal(err)
	}
	stderr.end()
	stderr.rest = 100
	if n, err := io.Copy(io.Discard, stderr); err != nil || n != 100 {
		t.Errorf("%d bytes of a longer output, %v; want its bound", n, err)
	}
}

// TestEndByOneSignal: a daemon that ends in order, by a signal that the launcher gets a moment later, isn't reported as one that
// is started again.
func TestEndByOneSignal(t *testing.T) {
	var log logtest.Buffer
	clock := testingclock.NewFakeClock(time.Now())
	c := &child{
		name: "d", path: "/bin/true", notices: filepath.Join(t.TempDir(), "n"), watchdog: time.Minute, clock: clock,
		ready: make(chan struct{}), ended: make(chan struct{}), output: &lines{daemon: "d", to: io.Discard},
		log: slog.New(slog.NewTextHandler(&log, nil)),
	}
	ctx, cancel := context.WithCancel(t.Context())
	go c.run(ctx, ctx)
	for deadline := time.Now().Add(20 * time.Second); !clock.HasWaiters(); time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("it doesn't wait:\n%s", log.String())
		}
	}
	cancel()
	<-c.ended
	if got := log.String(); strings.Contains(got, "started again") || !strings.Contains(got, `result="exit code 0"`) {
		t.Errorf("the log is:\n%s", got)
	}
}

// launchApart starts a launcher in a process of its own.
func launchApart(t *testing.T, files ...*os.File) (*exec.Cmd, io.ReadCloser) {
	t.Helper()
	dir := programs(t)
	cmd := exec.Command(os.Args[0], source, "--root-dir="+filepath.Join(dir, "kubelet"))
	cmd.Env = append(os.Environ(), asDaemon+"=launch", "PROGRAMS="+dir, "SOCKETS="+filepath.Join(dir, "run"))
	cmd.ExtraFiles = files
	output, err := cmd.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = cmd.Process.Kill(); _ = cmd.Wait() })
	return cmd, output
}

// TestLogClosed: if the other end of its standard error is closed, the launcher stops the daemons, and ends as after a failure:
// each unit that restarts a kubelet restarts it then, with a log.
func TestLogClosed(t *testing.T) {
	cmd, output := launchApart(t)
	(&launched{t: t, lines: newScanner(output)}).started("podconfigd", "podexecd")
	if err := output.Close(); err != nil {
		t.Fatal(err)
	}
	// podconfigd writes a line.
	if err := cmd.Process.Signal(unix.SIGHUP); err != nil {
		t.Fatal(err)
	}
	if err := cmd.Wait(); cmd.ProcessState.ExitCode() != 1 {
		t.Errorf("the launcher ends with %v; want exit code 1", err)
	}
}

// TestDescriptors: a file that the launcher was started with isn't open in the daemons.
func TestDescriptors(t *testing.T) {
	file, err := os.CreateTemp(t.TempDir(), "secret")
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	_, output := launchApart(t, file)
	for name, line := range (&launched{t: t, lines: newScanner(output)}).started("podconfigd", "podexecd") {
		dir := fmt.Sprintf("/proc/%d/fd", pid(t, line))
		entries, err := os.ReadDir(dir)
		if err != nil || len(entries) < 3 {
			t.Fatalf("%s has %d descriptors, %v", name, len(entries), err)
		}
		for _, e := range entries {
			if target, _ := os.Readlink(filepath.Join(dir, e.Name())); target == file.Name() {
				t.Errorf("%s has %s open", name, target)
			}
		}
	}
}
