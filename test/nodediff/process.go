package nodediff

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"syscall"
)

// process is a started program. It ends with this process.
type process struct {
	cmd *exec.Cmd
	// done is closed when the program has ended, with the result in err.
	done chan struct{}
	err  error
	log  string
}

// start starts a program. Its output is appended to NAME.log in dir.
func start(dir, program string, args ...string) (*process, error) {
	log := filepath.Join(dir, filepath.Base(program)+".log")
	output, err := os.OpenFile(log, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return nil, err
	}
	p := &process{cmd: exec.Command(program, args...), done: make(chan struct{}), log: log}
	p.cmd.Stdout, p.cmd.Stderr = output, output
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL, Setpgid: true}
	started := make(chan error, 1)
	go func() {
		defer output.Close()
		runtime.LockOSThread() // The parent-death signal is the thread's.
		defer runtime.UnlockOSThread()
		err := p.cmd.Start()
		started <- err
		if err == nil {
			p.err = p.cmd.Wait()
			close(p.done)
		}
	}()
	if err := <-started; err != nil {
		return nil, fmt.Errorf("start %s: %w", program, err)
	}
	return p, nil
}

func (p *process) pid() int { return p.cmd.Process.Pid }

// ended reports whether the program has ended.
func (p *process) ended() bool {
	select {
	case <-p.done:
		return true
	default:
		return false
	}
}

// kill ends the program with SIGKILL and waits for it. A program that has ended by itself is an error.
func (p *process) kill() error {
	if p.ended() {
		return fmt.Errorf("%s has ended by itself: %w\n%s", filepath.Base(p.log), p.err, p.tail(4000))
	}
	if err := p.cmd.Process.Kill(); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return err
	}
	<-p.done
	return nil
}

// tail returns the end of the output.
func (p *process) tail(size int) string {
	text, _ := os.ReadFile(p.log)
	return string(text[max(0, len(text)-size):])
}
