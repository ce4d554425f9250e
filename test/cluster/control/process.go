package control

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"syscall"
	"time"
)

const (
	// stopTimeout is how long a process has after SIGTERM.
	stopTimeout = 60 * time.Second
	// PollInterval is the pause between two questions to those who can't tell by themselves.
	PollInterval = 100 * time.Millisecond
	// Bound is the longest wait for anything: the last backoff of an outage, and a start of the API server on a busy
	// machine.
	Bound = 2 * time.Minute
)

// ErrNotYet is the answer that a wait goes on with.
var ErrNotYet = errors.New("not yet")

// errEnded is why a wait for a process that has ended is given up.
var errEnded = errors.New("the process has ended")

// Process is a child process; its output goes to the end of a file.
type Process struct {
	name, log string
	cmd       *exec.Cmd
	done      chan struct{} // closed when it has ended and been reaped
	err       error         // how it ended; to be read after done
}

// StartProcess starts a program; its output is added to the file log. It dies with the process that started it.
func StartProcess(name, log, program string, args ...string) (*Process, error) {
	output, err := os.OpenFile(log, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o644)
	if err != nil {
		return nil, fmt.Errorf("start %s: %w", name, err)
	}
	p := &Process{name: name, log: log, cmd: exec.Command(program, args...), done: make(chan struct{})}
	p.cmd.Stdout, p.cmd.Stderr = output, output
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL, Setpgid: true} // Ctrl-C is for us; we end it in our order
	started := make(chan error, 1)
	go func() {
		defer close(p.done)
		// The child dies with the thread that forked it, so this thread has to live as long as the child does.
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		defer output.Close()
		err := p.cmd.Start()
		started <- err
		if err == nil {
			p.err = p.cmd.Wait()
		}
	}()
	if err := <-started; err != nil {
		return nil, fmt.Errorf("start %s: %w", name, err)
	}
	return p, nil
}

// Stop ends the process with SIGTERM, and tells if it ended with another code than 0 or had to be killed.
func (p *Process) Stop() error {
	if err := p.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		return fmt.Errorf("stop %s: %w; its output ends with:\n%s", p.name, err, p.Tail())
	}
	select {
	case <-p.done:
	case <-time.After(stopTimeout):
		p.Kill()
		return fmt.Errorf("%s didn't end within %v of SIGTERM and was killed", p.name, stopTimeout)
	}
	if p.err != nil {
		return fmt.Errorf("stop %s: %w; its output ends with:\n%s", p.name, p.err, p.Tail())
	}
	return nil
}

// Kill ends the process with SIGKILL, if it runs, and returns when it is gone.
func (p *Process) Kill() {
	_ = p.cmd.Process.Kill() // fails only if it has ended
	<-p.done
}

// Tail is the end of what the process printed, for messages.
func (p *Process) Tail() string {
	const size = 4 << 10
	text, err := os.ReadFile(p.log)
	if err != nil {
		return err.Error()
	}
	return strings.TrimSpace(string(text[max(0, len(text)-size):]))
}

// Until asks again and again until the answer is nil, at most for Bound, and no longer than the asked process lives;
// nil is none in particular. Where the answer doesn't come in time, the error has the last one.
func Until(ctx context.Context, asked *Process, what string, ask func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(ctx, Bound)
	defer cancel()
	var ended chan struct{} // of none in particular: never
	if asked != nil {
		ended = asked.done
	}
	tick := time.NewTicker(PollInterval)
	defer tick.Stop()
	for {
		last := ask(ctx)
		if last == nil {
			return nil
		}
		select {
		case <-tick.C:
		case <-ended:
			return fmt.Errorf("wait until %s: %w; the output of %s ends with:\n%s", what, errEnded, asked.name, asked.Tail())
		case <-ctx.Done():
			return fmt.Errorf("wait until %s: %w; last answer: %w", what, ctx.Err(), last)
		}
	}
}
