package launcher

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"golang.org/x/sync/errgroup"
	"golang.org/x/sys/unix"
	"k8s.io/utils/clock"
)

const (
	// stopTime is how long a daemon may take to end after SIGTERM.
	stopTime = 25 * time.Second
	// endTime is the time between the end of a daemon by a signal, and that of the launcher by the same signal: a service
	// manager, or the machine's shutdown, signals all processes.
	endTime = 100 * time.Millisecond
	// firstPause and longestPause bound the pause before a daemon is started again; it doubles. A daemon that ran for calmTime
	// is started after the first one again.
	firstPause, longestPause, calmTime = 500 * time.Millisecond, 10 * time.Second, time.Minute
)

// child is a daemon as a child process.
type child struct {
	// name is the daemon's name, path its program.
	name, path string
	args, env  []string
	attr       syscall.SysProcAttr
	// confined: neither the daemon nor a process that it starts gets more rights by a program's file.
	confined bool
	// prepare is called before each start. Nil: there is nothing to prepare.
	prepare func() error
	// output gets the lines of the daemon's output.
	output *lines
	// notices is the path of the socket for the daemon's messages. watchdog is the period of its signs of progress.
	notices  string
	watchdog time.Duration
	// stop has the daemon get SIGTERM.
	stop context.CancelFunc
	// changed is called when the daemon reports another status. Nil: its status isn't used.
	changed func()
	clock   clock.Clock
	log     *slog.Logger

	// ready is closed once the daemon was ready for the first time; ended when run has ended.
	ready, ended chan struct{}
	begin        sync.Once
	status       atomic.Pointer[string]
	// hangs is set from the end of a period of the watchdog until the process has ended.
	hangs atomic.Bool
	// process is nil while the daemon doesn't run.
	process atomic.Pointer[os.Process]
	// reports gets the signals to a process that hangs, for the log. It is of one process.
	reports chan report
}

// run keeps the daemon running until ctx ends. The daemon gets SIGTERM when stop ends, unless it has ended before that.
func (c *child) run(ctx, stop context.Context) {
	defer close(c.ended)
	// The death signal of a child comes when its parent thread ends. That is at the end of this goroutine, which has the thread
	// alone.
	runtime.LockOSThread()
	if c.confined {
		// Only for this thread, and for the processes that it starts.
		if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
			c.log.Warn("the daemon may start programs with more rights", "child", c.name, "error", err)
		}
	}
	pause := firstPause
	for ctx.Err() == nil {
		begin := c.clock.Now()
		err := c.once(stop)
		c.setStatus("not running")
		if err == nil {
			select {
			case <-ctx.Done():
			case <-c.clock.After(endTime):
			}
		}
		if ctx.Err() != nil {
			c.log.Info("the daemon ended", "child", c.name, "result", describe(err))
			return
		}
		if c.clock.Since(begin) >= calmTime {
			pause = firstPause
		}
		c.log.Error("the daemon ended, and is started again; pods go on", "child", c.name, "result", describe(err), "pause", pause)
		select {
		case <-ctx.Done():
			return
		case <-c.clock.After(pause):
		}
		pause = min(2*pause, longestPause)
	}
}

// once runs the daemon until it ends by itself, or is stopped at the end of stop.
func (c *child) once(stop context.Context) error {
	if c.prepare != nil {
		if err := c.prepare(); err != nil {
			return err
		}
	}
	uid, gid := os.Geteuid(), os.Getegid()
	if owner := c.attr.Credential; owner != nil {
		uid, gid = int(owner.Uid), int(owner.Gid)
	}
	messages, err := listenNotices(c.notices, uid, gid)
	if err != nil {
		return err
	}
	defer messages.close()
	cmd := exec.CommandContext(stop, c.path, c.args...)
	cmd.Args[0] = c.path
	cmd.Env = slices.Concat(c.env, messages.environment(c.watchdog))
	attr := c.attr
	attr.Pdeathsig = unix.SIGKILL
	// A group of its own: a terminal's Ctrl-C reaches only the launcher, which passes it on.
	attr.Setpgid = true
	cmd.SysProcAttr = &attr
	cmd.Cancel = func() error { return cmd.Process.Signal(unix.SIGTERM) }
	cmd.WaitDelay = stopTime
	stdout, stderr, err := c.pipes(cmd)
	if err != nil {
		return err
	}
	if err := cmd.Start(); err != nil {
		stdout.close()
		stderr.close()
		return err
	}
	c.process.Store(cmd.Process)
	defer c.process.Store(nil)
	stdout.started()
	stderr.started()
	var copies errgroup.Group
	for _, p := range []*pipe{stdout, stderr} {
		copies.Go(func() error { return c.output.copy(p) })
	}
	reports := make(chan report, maxReports)
	c.reports = reports
	var watching, reporting sync.WaitGroup
	watching.Go(func() { c.watch(messages) })
	reporting.Go(func() { c.logReports(reports) })
	c.log.Info("the daemon starts", "child", c.name, "pid", cmd.Process.Pid)
	err = cmd.Wait()
	messages.close()
	watching.Wait()
	c.hangs.Store(false)
	close(reports)
	reporting.Wait()
	if errors.Is(err, context.Canceled) && cmd.ProcessState.Success() {
		err = nil // It was stopped, and ended in order.
	}
	stdout.end()
	stderr.end()
	if failed := copies.Wait(); failed != nil {
		c.log.Warn("the output of the daemon is incomplete", "child", c.name, "error", failed)
	}
	stdout.close()
	stderr.close()
	return err
}

// signal sends a signal to the daemon, if it runs.
func (c *child) signal(s os.Signal) {
	if p := c.process.Load(); p != nil {
		if err := p.Signal(s); err != nil && !errors.Is(err, os.ErrProcessDone) {
			c.log.Warn("the daemon can't be signaled", "child", c.name, "signal", s.String(), "error", err)
		}
	}
}

// describe returns how a process ended.
func describe(err error) string {
	var exit *exec.ExitError
	switch {
	case err == nil:
		return "exit code 0"
	case errors.As(err, &exit) && exit.Exited():
		return fmt.Sprintf("exit code %d", exit.ExitCode())
	default:
		return err.Error()
	}
}
