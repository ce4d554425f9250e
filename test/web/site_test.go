package web

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/podstream/podstream/test/rig"
)

// patience bounds each wait. The machine may be busy with other tests.
var patience = rig.Patience(60 * time.Second)

// site is a running `podctl web`.
type site struct {
	// address is what the browser opens: it has the one-time token.
	address string
	cmd     *exec.Cmd
	stdin   io.WriteCloser

	mu     sync.Mutex
	output strings.Builder
	read   sync.WaitGroup
}

var (
	filePattern    = regexp.MustCompile(`(/\S+\.html)`)
	addressPattern = regexp.MustCompile(`http://127\.0\.0\.1:\d+/#token=[A-Za-z0-9_-]+`)
)

// startSite starts `podctl web` for the daemons at two sockets.
func startSite(t *testing.T, config, exec string, flags ...string) *site {
	t.Helper()
	args := append([]string{"web", "--port", "0", "--podconfig-endpoint", "unix://" + config, "--podexec-endpoint", "unix://" + exec}, flags...)
	s, err := runSite(filepath.Join(nodes.BinDir, "podctl"), args)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.stop(t) })
	return s
}

func runSite(program string, args []string) (*site, error) {
	s := &site{cmd: exec.Command(program, args...)}
	s.cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	stderr, err := s.cmd.StderrPipe()
	if err != nil {
		return nil, err
	}
	if s.stdin, err = s.cmd.StdinPipe(); err != nil {
		return nil, err
	}
	if err := s.cmd.Start(); err != nil {
		return nil, err
	}
	found := make(chan string, 1)
	s.read.Go(func() {
		lines := bufio.NewScanner(stderr)
		for lines.Scan() {
			s.mu.Lock()
			s.output.WriteString(lines.Text() + "\n")
			s.mu.Unlock()
			if file := filePattern.FindString(lines.Text()); file != "" {
				select {
				case found <- file:
				default:
				}
			}
		}
		close(found)
	})
	file, ok := "", false
	select {
	case file, ok = <-found:
	case <-time.After(patience):
	}
	if !ok {
		_ = s.cmd.Process.Kill()
		s.read.Wait()
		return nil, fmt.Errorf("podctl web: %v, with the output\n%s", s.cmd.Wait(), s.text())
	}
	content, err := os.ReadFile(file)
	s.address = addressPattern.FindString(string(content))
	if err == nil && s.address == "" {
		err = fmt.Errorf("%s has no address:\n%s", file, content)
	}
	return s, err
}

// text returns what podctl has printed.
func (s *site) text() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.output.String()
}

// stop ends podctl as Ctrl-C does.
func (s *site) stop(t *testing.T) {
	_ = s.cmd.Process.Signal(os.Interrupt)
	ended := context.AfterFunc(deadline(patience), func() { _ = s.cmd.Process.Kill() })
	s.read.Wait()
	_ = s.stdin.Close()
	_ = s.cmd.Wait()
	if !ended() {
		t.Errorf("podctl web didn't end after Ctrl-C:\n%s", s.text())
	}
	if t.Failed() {
		t.Logf("podctl web printed:\n%s", s.text())
	}
}

// deadline returns a context that ends after a time.
func deadline(limit time.Duration) context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	context.AfterFunc(ctx, cancel)
	return ctx
}
