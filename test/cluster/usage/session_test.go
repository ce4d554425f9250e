package usage

import (
	"context"
	"io"
	"os/exec"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/creack/pty"

	"github.com/podstream/podstream/test/cluster/control"
	"github.com/podstream/podstream/test/rig"
)

// session is a kubectl that runs while the test reads its output, and may type.
type session struct {
	cmd *exec.Cmd
	// in is its input: the terminal, if there is one.
	in io.WriteCloser

	mu     sync.Mutex
	output []byte
	news   chan struct{} // has a value when there is more output, or the end of it
	ended  bool
	err    error
	done   chan struct{} // closed when the program has ended and all its output is read
}

// begin starts kubectl with pipes. Both outputs are one text. It ends with the test.
func (s *space) begin(t *testing.T, args ...string) *session {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	cmd := s.site.command(ctx, append([]string{"--namespace", s.name}, args...)...)
	out, w := io.Pipe()
	cmd.Stdout, cmd.Stderr = w, w
	in := rig.Get(cmd.StdinPipe())(t)
	r := newSession(cmd, in)
	if err := cmd.Start(); err != nil {
		cancel()
		t.Fatal(err)
	}
	go r.read(out, nil)
	go func() {
		r.err = cmd.Wait()
		_ = w.Close() // closing a pipe doesn't fail
	}()
	t.Cleanup(func() {
		cancel()
		<-r.done
	})
	return r
}

// beginTerminal starts kubectl on a terminal of that size.
func (s *space) beginTerminal(t *testing.T, columns, rows uint16, args ...string) *session {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	cmd := s.site.command(ctx, append([]string{"--namespace", s.name}, args...)...)
	terminal, err := pty.StartWithSize(cmd, &pty.Winsize{Cols: columns, Rows: rows})
	if err != nil {
		cancel()
		t.Fatal(err)
	}
	r := newSession(cmd, terminal)
	go r.read(terminal, func() { r.err = cmd.Wait() })
	t.Cleanup(func() {
		cancel()
		<-r.done
		_ = terminal.Close() // the other end is not connected
	})
	return r
}

func newSession(cmd *exec.Cmd, in io.WriteCloser) *session {
	return &session{cmd: cmd, in: in, news: make(chan struct{}, 1), done: make(chan struct{})}
}

// read collects the output until it ends. A terminal's output ends with an error.
func (r *session) read(out io.Reader, wait func()) {
	defer close(r.done)
	buffer := make([]byte, 32<<10)
	for {
		n, err := out.Read(buffer)
		if err != nil && wait != nil {
			wait()
		}
		r.mu.Lock()
		r.output = append(r.output, buffer[:n]...)
		r.ended = err != nil
		r.mu.Unlock()
		select {
		case r.news <- struct{}{}:
		default:
		}
		if err != nil {
			return
		}
	}
}

// text returns the output so far.
func (r *session) text() string {
	text, _ := r.state()
	return text
}

func (r *session) state() (text string, ended bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return string(r.output), r.ended
}

// expect waits until the output has the text, and returns the output up to its end.
func (r *session) expect(t *testing.T, text string) string {
	t.Helper()
	return r.await(t, text, func(said string) bool { return strings.Contains(said, text) })
}

// await waits until enough returns true for the output.
func (r *session) await(t *testing.T, what string, enough func(string) bool) string {
	t.Helper()
	return r.within(t, control.Bound, what, enough)
}

// within is await with another time limit.
func (r *session) within(t *testing.T, bound time.Duration, what string, enough func(string) bool) string {
	t.Helper()
	timeout := time.NewTimer(bound)
	defer timeout.Stop()
	for {
		said, ended := r.state()
		if enough(said) {
			return said
		}
		if ended {
			t.Fatalf("kubectl ended and said %q; want %s", said, what)
		}
		select {
		case <-r.news:
		case <-timeout.C:
			t.Fatalf("kubectl said %q; want %s", said, what)
		}
	}
}

// say types text.
func (r *session) say(t *testing.T, text string) {
	t.Helper()
	rig.Get(io.WriteString(r.in, text))(t)
}

// wait waits until kubectl ends, and returns its error.
func (r *session) wait(t *testing.T) error {
	t.Helper()
	select {
	case <-r.done:
		return r.err
	case <-time.After(control.Bound):
		t.Fatalf("kubectl doesn't end; it said %q", r.text())
		return nil
	}
}
