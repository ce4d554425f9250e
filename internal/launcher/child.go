package launcher

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"syscall"
	"time"
)

const (
	// firstPause and longestPause are between the end of a program and its next start. The pause doubles, and is short again
	// after the program has run for steady.
	firstPause, longestPause, steady = 500 * time.Millisecond, 10 * time.Second, time.Minute
	// stopTimeout is how long a program may take to end after SIGTERM, until it is killed.
	stopTimeout = 30 * time.Second
)

// child is a program that the launcher keeps running.
type child struct {
	name, path string
	args       []string
	// stdout and stderr are the program's, if they are files.
	stdout, stderr io.Writer
	log            *slog.Logger
}

// keep runs the program until ctx ends, and then waits for its end.
func (c *child) keep(ctx context.Context) {
	// The kernel signals the child when this thread ends, which is not before this function returns.
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	pause := firstPause
	for ctx.Err() == nil {
		began := time.Now()
		err := c.run(ctx)
		if ctx.Err() != nil {
			if err != nil {
				c.log.Warn("stopped with an error", "program", c.name, "error", err)
			}
			return
		}
		if time.Since(began) >= steady {
			pause = firstPause
		}
		c.log.Error("ended; it is started again", "program", c.name, "error", reason(err), "pause", pause)
		select {
		case <-time.After(pause):
		case <-ctx.Done():
		}
		pause = min(2*pause, longestPause)
	}
}

// run runs the program once. When ctx ends it sends SIGTERM, and SIGKILL after stopTimeout.
func (c *child) run(ctx context.Context) error {
	cmd := exec.CommandContext(ctx, c.path, c.args...)
	cmd.Env = environment()
	cmd.Stdout, cmd.Stderr = c.stdout, c.stderr
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) }
	cmd.WaitDelay = stopTimeout
	// A group of its own: Ctrl-C reaches the launcher only, which passes it on once.
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGTERM}
	if err := cmd.Start(); err != nil {
		return err
	}
	c.log.Info("started", "program", c.name, "pid", cmd.Process.Pid)
	err := cmd.Wait()
	if ctx.Err() != nil && (errors.Is(err, context.Canceled) || cmd.ProcessState.Success()) {
		return nil
	}
	return err
}

// reason returns an error for a program that ended by itself.
func reason(err error) error {
	if err == nil {
		return errors.New("exit status 0")
	}
	return err
}

// environment returns the launcher's environment without the variables that systemd means for the launcher alone.
func environment() []string {
	var out []string
	for _, variable := range os.Environ() {
		name, _, _ := strings.Cut(variable, "=")
		switch name {
		case "NOTIFY_SOCKET", "WATCHDOG_PID", "WATCHDOG_USEC", "LISTEN_PID", "LISTEN_FDS", "LISTEN_FDNAMES":
		default:
			out = append(out, variable)
		}
	}
	return out
}
