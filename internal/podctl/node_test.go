package podctl

import (
	"context"
	"flag"
	"io"
	"net"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"
	"google.golang.org/grpc"
	"k8s.io/utils/clock"
	clocktesting "k8s.io/utils/clock/testing"

	"github.com/podstream/podstream/internal/daemon/process"
	"github.com/podstream/podstream/internal/podctl/podctltest"
	podconfigv1 "github.com/podstream/podstream/proto/podconfig/v1"
	podexecv1 "github.com/podstream/podstream/proto/podexec/v1"
)

var update = flag.Bool("update", false, "write the golden files instead of comparing with them")

// asProgram is set in the environment of the processes that tests start: these are podctl.
const asProgram = "PODSTREAM_PODCTL"

func TestMain(m *testing.M) {
	if os.Getenv(asProgram) != "" {
		process.Main(func(ctx context.Context) int {
			return Run(ctx, Config{Args: os.Args[1:], Stdout: os.Stdout, Stderr: os.Stderr})
		})
	}
	goleak.VerifyTestMain(m)
}

// noonClock's time is always noon; it waits in real time.
type noonClock struct{ clock.RealClock }

// noVariables is an environment without variables.
func noVariables(string) string { return "" }

// node has the fakes' sockets of one test, and podctl's output.
type node struct {
	t              *testing.T
	dir            string
	stdout, stderr *screen
	// silence is Config.Silence.
	silence time.Duration
	// maxItems and maxItemBytes are those of Config.
	maxItems, maxItemBytes int
	// completion is Config.CompletionPatience: the default one is short for a machine that is busy.
	completion time.Duration
	// clock is Config.Clock. Nil: noonClock.
	clock clock.Clock
	// stdin is the standard input, and editor $EDITOR.
	stdin, editor string
}

func newNode(t *testing.T) *node {
	t.Helper()
	dir, err := os.MkdirTemp("", "podctl") // t.TempDir is too long for a socket's name
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	return &node{t: t, dir: dir, stdout: newScreen(), stderr: newScreen(), clock: noonClock{}, completion: time.Minute}
}

func (n *node) socket(daemon string) string { return filepath.Join(n.dir, daemon+".sock") }

// serve runs a fake until the test ends or the returned function stops it.
func (n *node) serve(daemon string, register func(*grpc.Server)) (stop func()) {
	n.t.Helper()
	server := grpc.NewServer()
	register(server)
	return n.serveBy(daemon, server)
}

// serveBy runs a daemon's server until the test ends or the returned function stops it.
func (n *node) serveBy(daemon string, server *grpc.Server) (stop func()) {
	n.t.Helper()
	listener, err := net.Listen("unix", n.socket(daemon))
	if err != nil {
		n.t.Fatal(err)
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = server.Serve(listener)
	}()
	stop = func() { server.Stop(); <-done }
	n.t.Cleanup(stop)
	return stop
}

func (n *node) podconfigd(f *fakePodconfigd) (stop func()) {
	n.t.Helper()
	return n.serve("podconfigd", func(s *grpc.Server) { podconfigv1.RegisterPodConfigServiceServer(s, f) })
}

func (n *node) podexecd(f *fakePodexecd) (stop func()) {
	n.t.Helper()
	return n.serve("podexecd", func(s *grpc.Server) { podexecv1.RegisterPodExecServiceServer(s, f) })
}

// run runs podctl to its end.
func (n *node) run(ctx context.Context, args ...string) (code int) {
	return n.runWith(ctx, strings.NewReader(n.stdin), args...)
}

// runWith runs podctl with this standard input.
func (n *node) runWith(ctx context.Context, stdin io.Reader, args ...string) (code int) {
	args = append([]string{
		"--podconfig-endpoint=unix://" + n.socket("podconfigd"),
		"--podexec-endpoint=unix://" + n.socket("podexecd"),
	}, args...)
	if n.clock == nil {
		n.clock = noonClock{}
	}
	return Run(ctx, Config{
		Args: args, Stdin: stdin, Stdout: n.stdout, Stderr: n.stderr,
		Clock: n.clock, Hostname: "node1", ReconnectDelay: time.Millisecond, Silence: n.silence,
		MaxItems: n.maxItems, MaxItemBytes: n.maxItemBytes, CompletionPatience: n.completion, Version: "v1.2.3", Getenv: n.getenv,
	})
}

// getenv returns the variables that podctl has.
func (n *node) getenv(name string) string { return map[string]string{"EDITOR": n.editor}[name] }

// editWith makes an editor of a shell command, whose $1 is the file.
func (n *node) editWith(command string) {
	n.t.Helper()
	n.editor = filepath.Join(n.dir, "editor")
	if err := os.WriteFile(n.editor, []byte("#!/bin/sh\n"+command+"\n"), 0o700); err != nil {
		n.t.Fatal(err)
	}
}

// runToLimit runs podctl, and ends its time limit once it has printed this and waits.
func (n *node) runToLimit(printed string, args ...string) (code int) {
	n.t.Helper()
	fake := clocktesting.NewFakeClock(podctltest.Noon)
	n.clock = fake
	done := make(chan int, 1)
	go func() { done <- n.run(n.t.Context(), args...) }()
	n.stdout.await(n.t, printed)
	for !fake.HasWaiters() {
		runtime.Gosched()
	}
	fake.Step(time.Hour)
	return <-done
}

// start runs podctl beside the test; the returned function is Ctrl-C and returns the exit code.
func (n *node) start(args ...string) (interrupt func() int) {
	ctx, cancel := context.WithCancel(context.Background())
	code := make(chan int, 1)
	go func() { code <- n.run(ctx, args...) }()
	interrupt = sync.OnceValue(func() int {
		cancel()
		return <-code
	})
	n.t.Cleanup(func() { interrupt() })
	return interrupt
}

// golden compares text with a file in testdata.
func (n *node) golden(name, text string) {
	n.t.Helper()
	text = strings.ReplaceAll(text, n.dir, "/run")
	path := filepath.Join("testdata", name)
	if *update {
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			n.t.Fatal(err)
		}
		return
	}
	want, err := os.ReadFile(path)
	if err != nil {
		n.t.Fatalf("%v (go test -update writes it)", err)
	}
	if diff := cmp.Diff(string(want), text); diff != "" {
		n.t.Errorf("%s (-want +got):\n%s", path, diff)
	}
}
