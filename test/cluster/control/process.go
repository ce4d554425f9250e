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
	// stopTimeout is the time that a process has after SIGTERM.
	stopTimeout = 60 * time.Second
	// PollInterval is the interval of polls.
	PollInterval = 100 * time.Millisecond
	// Bound is the time limit of every wait: for the last backoff of an outage, and for a start of the API
	// server on a busy machine.
	Bound = 2 * time.Minute
)

// ErrNotYet is the error with which a wait continues.
var ErrNotYet = errors.New("not yet")

// errEnded ends a wait for a process that has ended.
var errEnded = errors.New("the process has ended")

// Process is a child process. Its output is appended to a file.
type Process struct {
	name, log string
	cmd       *exec.Cmd
	done      chan struct{} // closed when it has ended and been reaped
	err       error         // its exit error; valid after done
}

// StartProcess starts a program, and appends its output to the file log. The child dies with its parent.
func StartProcess(name, log, program string, args ...string) (*Process, error) {
	output, err := os.OpenFile(log, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o644)
	if err != nil {
		return nil, fmt.Errorf("start %s: %w", name, err)
	}
	p := &Process{name: name, log: log, cmd: exec.Command(program, args...), done: make(chan struct{})}
	p.cmd.Stdout, p.cmd.Stderr = output, output
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL, Setpgid: true} // Ctrl-C reaches only the parent, which ends its children in order
	started := make(chan error, 1)
	go func() {
		defer close(p.done)
		// The child dies with the thread that forked it, so this thread must live as long as the child.
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

// Stop ends the process with SIGTERM. It returns an error if the exit code isn't 0, or if it had to be killed.
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

// Kill ends the process with SIGKILL, if it runs, and returns when it has ended.
func (p *Process) Kill() {
	_ = p.cmd.Process.Kill() // fails only if the process has ended
	<-p.done
}

// Ended reports whether the process has ended.
func (p *Process) Ended() bool {
	select {
	case <-p.done:
		return true
	default:
		return false
	}
}

// Tail returns the end of the process's output, for messages.
func (p *Process) Tail() string {
	const size = 4 << 10
	text, err := os.ReadFile(p.log)
	if err != nil {
		return err.Error()
	}
	return strings.TrimSpace(string(text[max(0, len(text)-size):]))
}

// Until calls ask again and again until it returns nil, for at most Bound, and no longer than the process asked
// runs, if that isn't nil. If the time is over, the error has the last answer.
func Until(ctx context.Context, asked *Process, what string, ask func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(ctx, Bound)
	defer cancel()
	var ended chan struct{} // without a process: never closed
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

// PID returns the process's id.
func (p *Process) PID() int { return p.cmd.Process.Pid }
