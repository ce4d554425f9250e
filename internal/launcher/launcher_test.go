package launcher

import (
	"bufio"
	"cmp"
	"context"
	"fmt"
	"io"
	"net"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"
	"golang.org/x/sys/unix"

	"github.com/podstream/podstream/internal/daemon/process"
)

// asDaemon is set in the environment of the processes that stand for daemons: they are this test program.
const asDaemon = "PODSTREAM_LAUNCHER_DAEMON"

func TestMain(m *testing.M) {
	switch os.Getenv(asDaemon) {
	case "":
		goleak.VerifyTestMain(m)
	case "launch":
		launchHere()
	case "attack":
		attack()
	default:
		standIn()
	}
}

// standIn prints what it was started with, and then each signal. SIGTERM ends it, unless its arguments have "stubborn". It is
// ready at once, and sends signs of progress, unless they have --hangs-once. With --deaf it ignores SIGABRT.
func standIn() {
	signals := make(chan os.Signal, 8)
	notify(signals)
	if slices.Contains(os.Args, "--deaf") {
		signal.Ignore(unix.SIGABRT)
	}
	go progress()
	fmt.Fprintf(os.Stderr, "started %s pid=%d uid=%d notify=%q args=%q\n",
		filepath.Base(os.Args[0]), os.Getpid(), os.Geteuid(), os.Getenv("NOTIFY_SOCKET"), os.Args[1:])
	for s := range signals {
		fmt.Printf("%s gets %v\n", filepath.Base(os.Args[0]), s)
		if s == unix.SIGTERM && !slices.Contains(os.Args, "--hostname-override=stubborn") {
			os.Exit(0)
		}
	}
}

// progress sends what a daemon sends to systemd.
func progress() {
	usec, err := strconv.Atoi(os.Getenv("WATCHDOG_USEC"))
	if err != nil {
		panic(err)
	}
	conn, err := net.Dial("unixgram", os.Getenv("NOTIFY_SOCKET"))
	if err != nil {
		panic(err)
	}
	if _, err := fmt.Fprintf(conn, "READY=1\nSTATUS=up as %d", os.Getpid()); err != nil {
		panic(err)
	}
	for !hangs() {
		time.Sleep(time.Duration(usec) * time.Microsecond / 4)
		_, _ = conn.Write([]byte("WATCHDOG=1")) // It fails at the launcher's end.
	}
}

// hangs reports whether the arguments have --hangs-once=FILE, and the file doesn't exist, and creates it.
func hangs() bool {
	for _, arg := range os.Args {
		if path, ok := strings.CutPrefix(arg, "--hangs-once="); ok {
			fd, err := unix.Open(path, unix.O_CREAT|unix.O_EXCL, 0o600)
			_ = unix.Close(fd)
			return err == nil
		}
	}
	return false
}

// launchHere is the launcher in a process of its own, with daemons of standIn.
func launchHere() {
	l := &Launcher{
		Programs: os.Getenv("PROGRAMS"), Sockets: os.Getenv("SOCKETS"), Environ: append(os.Environ(), asDaemon+"=daemon"),
		Stdout: os.Stdout, Stderr: os.Stderr,
	}
	process.Main(func(ctx context.Context) int { return l.Run(ctx, os.Args[1:]) })
}

// launched is a launcher whose daemons are this test program.
type launched struct {
	t     *testing.T
	dir   string
	lines *bufio.Scanner
	// systemd receives the launcher's messages.
	systemd *net.UnixConn
	code    chan int
	stop    context.CancelFunc
}

// programs makes a directory with this program under the names of both daemons.
func programs(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	data, err := os.ReadFile(self)
	if err != nil {
		t.Fatal(err)
	}
	// podconfigd's user must be able to reach it.
	for p := dir; p != os.TempDir() && p != "/"; p = filepath.Dir(p) {
		if err := os.Chmod(p, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	for _, name := range []string{"podconfigd", "podexecd"} {
		if err := os.WriteFile(filepath.Join(dir, name), data, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// start starts a launcher with these flags, and a --root-dir.
func start(t *testing.T, args ...string) *launched {
	t.Helper()
	return startWith(t, &Launcher{}, args...)
}

// startWith is start for a launcher with other settings.
func startWith(t *testing.T, launcher *Launcher, args ...string) *launched {
	t.Helper()
	return startIn(t, programs(t), launcher, args...)
}

// startIn is startWith with a directory of programs.
func startIn(t *testing.T, dir string, launcher *Launcher, args ...string) *launched {
	t.Helper()
	socket := filepath.Join(dir, "notify.sock")
	systemd, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: socket, Net: "unixgram"})
	if err != nil {
		t.Fatal(err)
	}
	t.Setenv("NOTIFY_SOCKET", socket)
	read, write := io.Pipe()
	ctx, stop := context.WithCancel(t.Context())
	l := &launched{t: t, dir: dir, lines: bufio.NewScanner(read), systemd: systemd, code: make(chan int, 1), stop: stop}
	go func() {
		launcher.Programs, launcher.Sockets, launcher.Stdout, launcher.Stderr = dir, cmp.Or(launcher.Sockets, filepath.Join(dir, "run")), write, write
		launcher.Environ = append(os.Environ(), asDaemon+"=daemon")
		l.code <- launcher.Run(ctx, append([]string{"--root-dir=" + filepath.Join(dir, "kubelet")}, args...))
		_ = write.Close()
	}()
	t.Cleanup(func() { stop(); _, _ = io.Copy(io.Discard, read); _ = systemd.Close() })
	return l
}

func newScanner(r io.Reader) *bufio.Scanner { return bufio.NewScanner(r) }

// await returns the next line that has the text.
func (l *launched) await(text string) string {
	l.t.Helper()
	for l.lines.Scan() {
		if strings.Contains(l.lines.Text(), text) {
			return l.lines.Text()
		}
	}
	l.t.Fatalf("no line has %q: %v", text, l.lines.Err())
	return ""
}

// notified awaits a message to systemd that ends so.
func (l *launched) notified(text string) string {
	l.t.Helper()
	if err := l.systemd.SetReadDeadline(time.Now().Add(20 * time.Second)); err != nil {
		l.t.Fatal(err)
	}
	message := make([]byte, 4096)
	for {
		n, err := l.systemd.Read(message)
		if err != nil {
			l.t.Fatalf("no message to systemd ends in %q: %v", text, err)
		}
		if strings.HasSuffix(string(message[:n]), text) {
			return string(message[:n])
		}
	}
}

// started awaits the start of daemons, in any order, and returns their lines.
func (l *launched) started(names ...string) map[string]string {
	l.t.Helper()
	out := map[string]string{}
	for range names {
		line := l.await("started ")
		out[strings.Fields(line)[2]] = line
	}
	for _, name := range names {
		if out[name] == "" {
			l.t.Fatalf("started %q; want %q", out, names)
		}
	}
	return out
}

// pid returns the process of a line of a start.
func pid(t *testing.T, line string) int {
	t.Helper()
	_, rest, _ := strings.Cut(line, "pid=")
	number, err := strconv.Atoi(strings.Fields(rest)[0])
	if err != nil {
		t.Fatal(err)
	}
	return number
}

// ends awaits the launcher's end.
func (l *launched) ends(want int) {
	l.t.Helper()
	for l.lines.Scan() {
	}
	if code := <-l.code; code != want {
		l.t.Errorf("exit code %d; want %d", code, want)
	}
}
