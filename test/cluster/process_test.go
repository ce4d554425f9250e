package cluster

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
	// pollInterval is the pause between two questions to those who can't tell by themselves.
	pollInterval = 100 * time.Millisecond
	// bound is the longest wait for anything: the last backoff of an outage, and a start of the API server on a busy machine.
	bound = 2 * time.Minute
)

// errEnded is why a wait for a process that has ended is given up.
var errEnded = errors.New("the process has ended")

// process is a child process; its output goes to the end of a file.
type process struct {
	name, log string
	cmd       *exec.Cmd
	done      chan struct{} // closed when it has ended and been reaped
	err       error         // how it ended; to be read after done
}

func startProcess(name, log, program string, args ...string) (*process, error) {
	output, err := os.OpenFile(log, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o644)
	if err != nil {
		return nil, fmt.Errorf("start %s: %w", name, err)
	}
	p := &process{name: name, log: log, cmd: exec.Command(program, args...), done: make(chan struct{})}
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

// stop ends the process with SIGTERM, and tells if it ended with another code than 0 or had to be killed.
func (p *process) stop() error {
	if err := p.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		return fmt.Errorf("stop %s: %w; its output ends with:\n%s", p.name, err, p.tail())
	}
	select {
	case <-p.done:
	case <-time.After(stopTimeout):
		p.kill()
		return fmt.Errorf("%s didn't end within %v of SIGTERM and was killed", p.name, stopTimeout)
	}
	if p.err != nil {
		return fmt.Errorf("stop %s: %w; its output ends with:\n%s", p.name, p.err, p.tail())
	}
	return nil
}

// kill ends the process with SIGKILL, if it runs, and returns when it is gone.
func (p *process) kill() {
	_ = p.cmd.Process.Kill() // fails only if it has ended
	<-p.done
}

// tail is the end of what the process printed, for messages.
func (p *process) tail() string {
	const size = 4 << 10
	text, err := os.ReadFile(p.log)
	if err != nil {
		return err.Error()
	}
	return strings.TrimSpace(string(text[max(0, len(text)-size):]))
}

// until asks again and again until the answer is nil, at most for bound, and no longer than the asked process lives; nil is none
// in particular. Where the answer doesn't come in time, the error has the last one.
func until(ctx context.Context, asked *process, what string, ask func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(ctx, bound)
	defer cancel()
	var ended chan struct{} // of none in particular: never
	if asked != nil {
		ended = asked.done
	}
	tick := time.NewTicker(pollInterval)
	defer tick.Stop()
	for {
		last := ask(ctx)
		if last == nil {
			return nil
		}
		select {
		case <-tick.C:
		case <-ended:
			return fmt.Errorf("wait until %s: %w; the output of %s ends with:\n%s", what, errEnded, asked.name, asked.tail())
		case <-ctx.Done():
			return fmt.Errorf("wait until %s: %w; last answer: %w", what, ctx.Err(), last)
		}
	}
}
