package lifecycle

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
)

// userPodctl is a podctl that runs, with a standard input that the test writes.
type userPodctl struct {
	t      *testing.T
	cmd    *exec.Cmd
	stdin  io.WriteCloser
	output *printed
	stderr *printed
	// ended is closed when podctl has ended.
	ended chan struct{}
}

// printed is output that can be read while it is written.
type printed struct {
	mu   sync.Mutex
	text bytes.Buffer
}

// Write implements io.Writer.
func (s *printed) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.text.Write(p)
}

func (s *printed) String() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.text.String()
}

// startPodctl starts podctl against the bench's daemons. It is killed when the test ends.
func (b *bench) startPodctl(t *testing.T, args ...string) *userPodctl {
	t.Helper()
	s := &userPodctl{t: t, output: &printed{}, stderr: &printed{}}
	s.cmd = exec.CommandContext(t.Context(), filepath.Join(nodes.BinDir, "podctl"), append([]string{
		"--podconfig-endpoint", "unix://" + b.ConfigSocket(), "--podexec-endpoint", "unix://" + b.ExecSocket()}, args...)...)
	s.cmd.Stdout, s.cmd.Stderr = s.output, s.stderr
	var err error
	s.stdin, err = s.cmd.StdinPipe()
	check(t, err)
	check(t, s.cmd.Start())
	s.ended = make(chan struct{})
	go func() {
		defer close(s.ended)
		_ = s.cmd.Wait()
	}()
	t.Cleanup(func() {
		_ = s.cmd.Process.Kill()
		<-s.ended
	})
	return s
}

// await waits until podctl has printed the text.
func (s *userPodctl) await(text string) {
	s.t.Helper()
	eventually(s.t, fmt.Sprintf("podctl prints %q", text), func() error {
		if !strings.Contains(s.output.String(), text) {
			return fmt.Errorf("it has printed %q, and on stderr %q", s.output, s.stderr)
		}
		return nil
	})
}

// say types a line until the process shows it: a runtime passes on input a moment before it passes on output.
func (s *userPodctl) say(line string) {
	s.t.Helper()
	eventually(s.t, fmt.Sprintf("the process shows %q", line), func() error {
		if strings.Contains(s.output.String(), line) {
			return nil
		}
		if _, err := io.WriteString(s.stdin, line+"\n"); err != nil {
			return fmt.Errorf("%w; stderr %q", err, s.stderr)
		}
		return fmt.Errorf("it has printed %q", s.output)
	})
}

// end waits for podctl's end, after a signal if that isn't nil, and returns its exit code: -1 after a signal that it
// doesn't handle.
func (s *userPodctl) end(signal os.Signal) int {
	s.t.Helper()
	if signal != nil {
		check(s.t, s.cmd.Process.Signal(signal))
	}
	eventually(s.t, "podctl ends", func() error {
		select {
		case <-s.ended:
			return nil
		default:
			return fmt.Errorf("it has printed %q, and on stderr %q", s.output, s.stderr)
		}
	})
	return s.cmd.ProcessState.ExitCode()
}
