package stream

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"sync"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/client-go/tools/remotecommand"
	utilexec "k8s.io/client-go/util/exec"

	"github.com/podstream/podstream/internal/metrictest"
)

func makeDir(t *testing.T, path string) {
	t.Helper()
	if err := os.MkdirAll(path, 0o755); err != nil {
		t.Fatal(err)
	}
}

// executors are the two protocols of a client.
var executors = map[string]func(n *node, path string, pairs ...string) (remotecommand.Executor, error){
	"spdy": func(n *node, path string, pairs ...string) (remotecommand.Executor, error) {
		return remotecommand.NewSPDYExecutor(n.client(), "POST", n.url(path, pairs...))
	},
	"websocket": func(n *node, path string, pairs ...string) (remotecommand.Executor, error) {
		return remotecommand.NewWebSocketExecutor(n.client(), "GET", n.url(path, pairs...).String())
	},
}

// overBoth runs a test over each protocol.
func overBoth(t *testing.T, test func(t *testing.T, open func(n *node, path string, pairs ...string) remotecommand.Executor)) {
	for name, executor := range executors {
		t.Run(name, func(t *testing.T) {
			test(t, func(n *node, path string, pairs ...string) remotecommand.Executor {
				t.Helper()
				e, err := executor(n, path, pairs...)
				if err != nil {
					t.Fatal(err)
				}
				return e
			})
		})
	}
}

type opener = func(n *node, path string, pairs ...string) remotecommand.Executor

// command returns the query for a command of the sample program.
func command(pairs []string, args ...string) []string {
	pairs = append(pairs, "command", "/sample")
	for _, a := range args {
		pairs = append(pairs, "command", a)
	}
	return pairs
}

// Only requests over WebSocket count as those.
func TestWebSocketMetric(t *testing.T) {
	metrics := prometheus.NewRegistry()
	n := newNode(t, func(c *Config) { c.Registerer = metrics })
	n.pod("web", nil, "pause")
	for i, name := range []string{"spdy", "websocket"} {
		e, err := executors[name](n, "/exec/default/web/uid-web/main", command([]string{"output", "1"}, "exit", "0")...)
		if err != nil {
			t.Fatal(err)
		}
		if err := e.StreamWithContext(t.Context(), remotecommand.StreamOptions{Stdout: io.Discard}); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		metrictest.Want(t, metrics, map[string]float64{"kubelet_websocket_streaming_requests_total{subresource=exec}": float64(i)})
	}
}

func TestExecReportsExitCodeAndOutput(t *testing.T) {
	overBoth(t, func(t *testing.T, open opener) {
		n := newNode(t, nil)
		n.pod("web", nil, "pause")
		var stdout, stderr bytes.Buffer
		run := func(args ...string) error {
			stdout.Reset()
			stderr.Reset()
			e := open(n, "/exec/default/web/uid-web/main", command([]string{"output", "1", "error", "1"}, args...)...)
			return e.StreamWithContext(t.Context(), remotecommand.StreamOptions{Stdout: &stdout, Stderr: &stderr})
		}
		if err := run("exit", "0"); err != nil {
			t.Errorf("exit 0: %v", err)
		}
		var exit utilexec.CodeExitError
		if err := run("exit", "7"); !errors.As(err, &exit) || exit.Code != 7 {
			t.Errorf("exit 7: %v", err)
		}
		if err := run("nonsense"); !errors.As(err, &exit) || exit.Code != 2 || stderr.String() != "sample: unknown command \"nonsense\"\n" || stdout.Len() > 0 {
			t.Errorf("a mistake: %v, stdout %q, stderr %q", err, &stdout, &stderr)
		}
		if err := run("write", "/f", "text"); err != nil {
			t.Errorf("write: %v", err)
		}
		if err := run("cat", "/f"); err != nil || stdout.String() != "text\n" || stderr.Len() > 0 {
			t.Errorf("cat: %v, stdout %q, stderr %q", err, &stdout, &stderr)
		}
	})
}

// The end of the input is not the end of the output.
func TestExecStdinEnds(t *testing.T) {
	overBoth(t, func(t *testing.T, open opener) {
		n := newNode(t, nil)
		n.pod("web", nil, "pause")
		var stdout bytes.Buffer
		e := open(n, "/exec/default/web/main", echoing...)
		err := e.StreamWithContext(t.Context(), remotecommand.StreamOptions{Stdin: strings.NewReader("hello"), Stdout: &stdout})
		if err != nil || stdout.String() != "hello" {
			t.Errorf("error %v, stdout %q", err, &stdout)
		}
	})
}

// sizes are the sizes of a terminal, in order.
type sizes chan remotecommand.TerminalSize

// Next implements remotecommand.TerminalSizeQueue.
func (s sizes) Next() *remotecommand.TerminalSize {
	size, ok := <-s
	if !ok {
		return nil
	}
	return &size
}

func TestExecTerminalIsResized(t *testing.T) {
	overBoth(t, func(t *testing.T, open opener) {
		n := newNode(t, nil)
		n.pod("web", nil, "pause")
		queue := make(sizes, 1)
		queue <- remotecommand.TerminalSize{Width: 80, Height: 24}
		reader, writer := io.Pipe()
		done := make(chan error, 1)
		e := open(n, "/exec/default/web/main", command([]string{"input", "1", "output", "1", "error", "1", "tty", "1"}, "tty", "100x30")...)
		go func() {
			err := e.StreamWithContext(t.Context(), remotecommand.StreamOptions{
				Stdin: strings.NewReader(""), Stdout: writer, Tty: true, TerminalSizeQueue: queue,
			})
			_ = writer.CloseWithError(err)
			done <- err
		}()
		line := make([]byte, len("terminal 80x24\n"))
		if _, err := io.ReadFull(reader, line); err != nil || string(line) != "terminal 80x24\n" {
			t.Fatalf("%q, %v", line, err)
		}
		queue <- remotecommand.TerminalSize{Width: 100, Height: 30}
		rest, _ := io.ReadAll(reader)
		if err := <-done; err != nil || string(rest) != "terminal 100x30\n" {
			t.Errorf("%v, %q", err, rest)
		}
		close(queue)
	})
}

// Any number of callers are served.
func TestManyExecsAtOnce(t *testing.T) {
	overBoth(t, func(t *testing.T, open opener) {
		n := newNode(t, nil)
		n.pod("web", nil, "pause")
		var all sync.WaitGroup
		for i := range 50 {
			e := open(n, "/exec/default/web/main", echoing...)
			all.Go(func() {
				var stdout bytes.Buffer
				text := fmt.Sprint("caller ", i)
				err := e.StreamWithContext(t.Context(), remotecommand.StreamOptions{Stdin: strings.NewReader(text), Stdout: &stdout})
				if err != nil || stdout.String() != text {
					t.Errorf("caller %d: %v, %q", i, err, &stdout)
				}
			})
		}
		all.Wait()
	})
}

// echoing is a command that returns its input.
var echoing = command([]string{"input", "1", "output", "1"}, "stdin")

// echo waits until an echoing command answers. The channel receives the error with which the caller's stream
// ends.
func echo(ctx context.Context, t *testing.T, e remotecommand.Executor) <-chan error {
	t.Helper()
	typed, typing := io.Pipe()
	reader, writer := io.Pipe()
	ended := make(chan error, 1)
	go func() {
		err := e.StreamWithContext(ctx, remotecommand.StreamOptions{Stdin: typed, Stdout: writer})
		_ = typed.Close()
		_ = writer.CloseWithError(io.ErrUnexpectedEOF)
		ended <- err
	}()
	if _, err := typing.Write([]byte("x")); err != nil {
		t.Fatal(<-ended)
	}
	if _, err := io.ReadFull(reader, make([]byte, 1)); err != nil {
		t.Fatal(<-ended)
	}
	t.Cleanup(func() { _ = typing.Close() })
	return ended
}

// When the container ends, the caller keeps the command's output, and receives its exit code.
func TestExecEndsWithItsContainer(t *testing.T) {
	overBoth(t, func(t *testing.T, open opener) {
		n := newNode(t, nil)
		pod := n.pod("web", nil, "pause")
		done := echo(t.Context(), t, open(n, "/exec/default/web/main", echoing...))
		if err := n.CRI.StopContainer(t.Context(), containerID(pod), 0); err != nil {
			t.Fatal(err)
		}
		var exit utilexec.CodeExitError
		if err := <-done; !errors.As(err, &exit) || exit.Code != 137 {
			t.Errorf("error %v", err)
		}
	})
}

// Close ends the streams and waits for them. Later callers are rejected.
func TestCloseEndsStreams(t *testing.T) {
	overBoth(t, func(t *testing.T, open opener) {
		n := newNode(t, nil)
		n.pod("web", nil, "pause")
		done := echo(t.Context(), t, open(n, "/exec/default/web/main", echoing...))
		n.Handler.Close()
		<-done
		if got := n.ask("GET", n.url("/containerLogs/default/web/main")); got.StatusCode != 503 {
			t.Errorf("after Close: %s", got.Status)
		}
	})
}

// A caller that disconnects leaves nothing behind.
func TestCallerLeavesExec(t *testing.T) {
	overBoth(t, func(t *testing.T, open opener) {
		n := newNode(t, func(cfg *Config) { cfg.MaxStreams = 1 })
		n.pod("web", nil, "pause")
		ctx, cancel := context.WithCancel(t.Context())
		done := echo(ctx, t, open(n, "/exec/default/web/main", echoing...))
		if got := n.ask("GET", n.url("/containerLogs/default/web/main")); got.StatusCode != 429 {
			t.Errorf("with the maximum number of streams: %s", got.Status)
		}
		cancel()
		<-done
		n.slots.close() // It waits until all streams have ended.
	})
}
