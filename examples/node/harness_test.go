package node_test

import (
	"bufio"
	"errors"
	"io"
	"os"
	"os/exec"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"
	"google.golang.org/protobuf/testing/protocmp"

	podconfigv1 "github.com/podstream/podstream/proto/podconfig/v1"
)

// deadline is the time limit of a test for an expected line.
const deadline = time.Minute

func TestMain(m *testing.M) {
	goleak.VerifyTestMain(m, goleak.Cleanup(func(code int) {
		_ = os.RemoveAll(installed.root)
		os.Exit(code)
	}))
}

// installed is a copy of the example with its packages, made once.
var installed struct {
	once sync.Once
	root string
	err  error
}

// watcher is a run of watch.mjs.
type watcher struct {
	t *testing.T
	// lines and log are what it prints, line by line; they are closed when it closes them.
	lines, log chan string
	process    *os.Process
	// exit has what Wait returned.
	exit chan error
	// script and stopServer are unset if there is no server.
	script     *script
	stopServer func()
}

// watch runs the example against the script until the test ends.
func watch(t *testing.T, s *script) *watcher {
	t.Helper()
	install(t) // before a server is started for nothing
	endpoint, stop := s.serve(t)
	w := run(t, endpoint)
	w.script, w.stopServer = s, stop
	return w
}

// run runs the example until the test ends.
func run(t *testing.T, endpoint string) *watcher {
	t.Helper()
	cmd := exec.Command("node", "watch.mjs", endpoint)
	cmd.Dir = install(t)
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	stderr, err := cmd.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	w := &watcher{t: t, lines: make(chan string, 100), log: make(chan string, 1000), process: cmd.Process, exit: make(chan error, 1)}
	var readers sync.WaitGroup
	readers.Go(func() { read(stdout, w.lines) })
	readers.Go(func() { read(stderr, w.log) })
	go func() {
		readers.Wait() // Wait closes the pipes
		w.exit <- cmd.Wait()
		close(w.exit)
	}()
	t.Cleanup(func() {
		_ = w.process.Kill()
		for range w.exit {
		}
		if t.Failed() {
			for line := range w.log {
				t.Log("stderr:", line)
			}
		}
	})
	return w
}

// read sends the lines to a channel that is larger than any test's output.
func read(r io.Reader, lines chan<- string) {
	defer close(lines)
	for s := bufio.NewScanner(r); s.Scan(); {
		lines <- s.Text()
	}
}

// wantLines waits for the next lines.
func (w *watcher) wantLines(lines ...string) {
	w.t.Helper()
	for _, want := range lines {
		select {
		case got, open := <-w.lines:
			if !open {
				w.t.Fatalf("the example has ended; want the line\n%s", want)
			}
			if got != want {
				w.t.Fatalf("the next line is\n%s\nwant\n%s", got, want)
			}
		case <-time.After(deadline):
			w.t.Fatalf("no line in %v; want\n%s", deadline, want)
		}
	}
}

// wantLog waits for a message that contains the text.
func (w *watcher) wantLog(text string) {
	w.t.Helper()
	timeout := time.After(deadline)
	for {
		select {
		case got, open := <-w.log:
			if !open {
				w.t.Fatalf("the example has ended; want it to say %q", text)
			}
			if strings.Contains(got, text) {
				return
			}
		case <-timeout:
			w.t.Fatalf("no message in %v; want %q", deadline, text)
		}
	}
}

// wantRequest checks how the example subscribed: the next of its requests.
func (w *watcher) wantRequest(mode podconfigv1.NotificationMode, after *podconfigv1.Cursor, pods ...*podconfigv1.KnownPod) {
	w.t.Helper()
	select {
	case got := <-w.script.requests:
		want := &podconfigv1.WatchPodUpdatesRequest{
			Consumer: "example-node", Mode: mode, Format: podconfigv1.PodFormat_POD_FORMAT_JSON, ResumeAfter: after, KnownPods: pods,
			HeartbeatInterval: got.GetHeartbeatInterval(),
		}
		if diff := cmp.Diff(want, got, protocmp.Transform()); diff != "" {
			w.t.Errorf("the request is another one (-want +got):\n%s", diff)
		}
		if got.GetHeartbeatInterval().AsDuration() < time.Second {
			w.t.Errorf("heartbeats are asked for every %v; want some seconds", got.GetHeartbeatInterval().AsDuration())
		}
	case <-time.After(deadline):
		w.t.Fatalf("no request in %v", deadline)
	}
}

// end ends the example with a signal, which is no failure, and checks that it prints nothing more.
func (w *watcher) end(signal os.Signal) {
	w.t.Helper()
	if err := w.process.Signal(signal); err != nil {
		w.t.Fatal(err)
	}
	w.wantExit(0)
}

// wantExit waits for the end of the example.
func (w *watcher) wantExit(code int) {
	w.t.Helper()
	select {
	case err := <-w.exit:
		got := 0
		var exit *exec.ExitError
		if errors.As(err, &exit) {
			got = exit.ExitCode()
		} else if err != nil {
			w.t.Fatal(err)
		}
		if got != code {
			w.t.Errorf("the example exits with %d; want %d", got, code)
		}
		for line := range w.lines {
			w.t.Errorf("at its end the example prints %s", line)
		}
	case <-time.After(deadline):
		w.t.Fatalf("the example runs on for %v; want its end", deadline)
	}
}
