package cridiff

import (
	_ "embed"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
)

// process is a started program. It ends with this process.
type process struct {
	cmd  *exec.Cmd
	done chan error
	log  string
}

//go:embed isolate.sh
var isolate string

// start starts a program with the node's facts, isolated from the machine. Its output goes to NAME.log in the site's
// directory.
func (s *Site) start(name string, args ...string) (*process, error) {
	log := s.path(name + ".log")
	output, err := os.Create(log)
	if err != nil {
		return nil, err
	}
	command := append(s.apart(), "sh", "-c", isolate, "sh",
		s.nodeIP(), strings.Join(s.Node.Facts, " "), s.CgroupRoot, filepath.Join(s.Programs, name))
	p := &process{cmd: exec.Command(command[0], append(command[1:], args...)...), done: make(chan error, 1), log: log}
	p.cmd.Stdout, p.cmd.Stderr = output, output
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL, Setpgid: true}
	started := make(chan error, 1)
	go func() {
		defer output.Close()
		runtime.LockOSThread() // the parent-death signal is the thread's
		defer runtime.UnlockOSThread()
		err := p.cmd.Start()
		started <- err
		if err == nil {
			p.done <- p.cmd.Wait()
		}
	}()
	if err := <-started; err != nil {
		return nil, fmt.Errorf("start %s: %w", name, err)
	}
	return p, nil
}

// apart returns the command that runs another one in namespaces of its own, or in the network of the runtime or of the API
// server.
func (s *Site) apart() []string {
	switch {
	case s.Network != "":
		return []string{"nsenter", "--net=" + s.Network, "unshare", "--mount", "--propagation", "unchanged", "env", "SHARED=" + s.Dir}
	case s.api != nil:
		return []string{"nsenter", "--net=" + namespaceOf(s.api.etcd.cmd.Process.Pid), "unshare", "--mount", "--propagation", "private"}
	default:
		return []string{"unshare", "--net", "--mount", "--propagation", "private"}
	}
}

// ended reports whether the process was started and has ended.
func (p *process) ended() bool {
	return p != nil && errors.Is(p.cmd.Process.Signal(syscall.Signal(0)), os.ErrProcessDone)
}

// kill ends the process with SIGKILL and waits for it.
func (p *process) kill() error {
	if p == nil {
		return nil
	}
	err := p.cmd.Process.Kill()
	ended := <-p.done
	if errors.Is(err, os.ErrProcessDone) {
		tail, _ := os.ReadFile(p.log)
		return fmt.Errorf("%s ended by itself: %w\n%s", filepath.Base(p.log), ended, tail[max(0, len(tail)-4000):])
	}
	return err
}
