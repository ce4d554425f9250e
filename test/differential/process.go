package differential

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"syscall"
	"time"
)

// stopTimeout is the time that a process has after SIGTERM.
const stopTimeout = 30 * time.Second

// process is an injectd with a separate directory.
type process struct {
	dir  string
	cmd  *exec.Cmd
	done chan error
}

// startProcess starts the program in a new directory, with env added to the environment. Its output is in the error
// of stop.
func startProcess(program string, args func(dir string) []string, env ...string) (_ *process, err error) {
	dir, err := os.MkdirTemp("", "differential")
	if err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			_ = os.RemoveAll(dir)
		}
	}()
	p := &process{dir: dir, cmd: exec.Command(program, args(dir)...), done: make(chan error, 1)}
	output, err := os.Create(p.log())
	if err != nil {
		return nil, err
	}
	p.cmd.Env = append(os.Environ(), env...)
	p.cmd.Stdout, p.cmd.Stderr = output, output
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	started := make(chan error)
	go func() {
		// The child dies with the thread that forked it, so this thread must live as long as the child.
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		defer output.Close()
		err := p.cmd.Start()
		started <- err
		if err == nil {
			p.done <- p.cmd.Wait()
		}
	}()
	if err := <-started; err != nil {
		return nil, fmt.Errorf("start %s: %w", program, err)
	}
	return p, nil
}

func (p *process) log() string { return filepath.Join(p.dir, "log") }

// stop ends the process with SIGTERM and removes its directory. It returns an error if the process failed.
func (p *process) stop() error {
	defer os.RemoveAll(p.dir)
	if err := p.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		return fmt.Errorf("injectd had ended: %w: %w%s", err, <-p.done, p.output())
	}
	select {
	case err := <-p.done:
		if err != nil {
			return fmt.Errorf("stop injectd: %w%s", err, p.output())
		}
		return nil
	case <-time.After(stopTimeout):
		_ = p.cmd.Process.Kill()
		<-p.done
		return fmt.Errorf("injectd didn't end within %v of SIGTERM%s", stopTimeout, p.output())
	}
}

// output returns the output of the process, for messages.
func (p *process) output() string {
	text, err := os.ReadFile(p.log())
	if err != nil {
		return "; " + err.Error()
	}
	return "; its output:\n" + string(text)
}
