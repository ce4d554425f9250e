package devnode

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"
)

// stopTimeout is the time limit of Process.Stop after SIGTERM. It is longer than the grace periods in tests.
const stopTimeout = 30 * time.Second

// Process is a child process that can be stopped and started again any number of times. It is safe for concurrent use.
type Process struct {
	// Name is the name that it was started with, for instance "podexecd".
	Name string
	// Args are its arguments, without the program. They may be changed only while it doesn't run.
	Args []string
	// LogPath is the file for its stdout and stderr, of all its runs.
	LogPath string

	binary string
	env    []string // added to this process's environment
	// enter calls do in the network namespace in which the process is started.
	enter func(do func() error) error

	mu   sync.Mutex
	cmd  *exec.Cmd     // nil before the first start
	done chan struct{} // closed when cmd has ended and been reaped
	err  error         // the result of cmd.Wait; read only after done
}

// Start starts the process, for the first time or again. It returns an error if the process runs.
func (p *Process) Start() error { return p.StartWith() }

// StartWith is Start with additional environment variables, as KEY=VALUE, for this run only.
func (p *Process) StartWith(env ...string) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.running() {
		return fmt.Errorf("start %s: it already runs, as process %d", p.Name, p.cmd.Process.Pid)
	}
	output, err := os.OpenFile(p.LogPath, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o644)
	if err != nil {
		return fmt.Errorf("start %s: %w", p.Name, err)
	}
	cmd := exec.Command(p.binary, p.Args...)
	cmd.Env = slices.Concat(os.Environ(), p.env, env)
	cmd.Stdout, cmd.Stderr = output, output
	cmd.SysProcAttr = &syscall.SysProcAttr{
		Pdeathsig: syscall.SIGKILL,
		Setpgid:   true, // Ctrl-C signals only this process, which ends the children in order
	}

	started := make(chan error, 1)
	done := make(chan struct{})
	go func() {
		defer close(done)
		// The kernel kills the child when the thread that forked it ends, so this thread must exist as long as the
		// child.
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		defer output.Close()
		if err := p.enter(cmd.Start); err != nil {
			started <- err
			return
		}
		started <- nil
		p.err = cmd.Wait()
	}()
	if err := <-started; err != nil {
		<-done
		return fmt.Errorf("start %s: %w", p.Name, err)
	}
	p.cmd, p.done = cmd, done
	return nil
}

// running must be called with mu held.
func (p *Process) running() bool {
	if p.cmd == nil {
		return false
	}
	select {
	case <-p.done:
		return false
	default:
		return true
	}
}

// Pid returns the process ID of the latest run, or zero before the first one.
func (p *Process) Pid() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.cmd == nil {
		return 0
	}
	return p.cmd.Process.Pid
}

// Done returns a channel that is closed when the latest run has ended. It is nil before the first one.
func (p *Process) Done() <-chan struct{} {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.done
}

// Wait waits for the process to end. It returns nil after exit code 0, an *exec.ExitError after another end, or ctx's
// error.
func (p *Process) Wait(ctx context.Context) error {
	done := p.Done()
	if done == nil {
		return fmt.Errorf("wait for %s: it was never started", p.Name)
	}
	select {
	case <-done:
		return p.err
	case <-ctx.Done():
		return fmt.Errorf("wait for %s: %w", p.Name, ctx.Err())
	}
}

// Signal sends a signal. It returns an error if the process doesn't run.
func (p *Process) Signal(signal os.Signal) error {
	p.mu.Lock()
	cmd := p.cmd
	p.mu.Unlock()
	if cmd == nil {
		return fmt.Errorf("signal %s: it was never started", p.Name)
	}
	if err := cmd.Process.Signal(signal); err != nil {
		return fmt.Errorf("signal %s: %w", p.Name, err)
	}
	return nil
}

// Kill ends the process with SIGKILL, and returns when it has ended. It returns nil if the process had already ended.
func (p *Process) Kill() error {
	if err := p.Signal(syscall.SIGKILL); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return err
	}
	<-p.Done()
	return nil
}

// Stop sends SIGTERM, and returns when the process has ended. It returns an error if the process had already ended,
// ended with a code other than 0, or had to be killed after 30 s.
func (p *Process) Stop() error {
	if err := p.Signal(syscall.SIGTERM); err != nil {
		return fmt.Errorf("%w; its output ends with:\n%s", err, p.LogTail())
	}
	ctx, cancel := context.WithTimeout(context.Background(), stopTimeout)
	defer cancel()
	err := p.Wait(ctx)
	switch {
	case err == nil:
		return nil
	case errors.Is(err, context.DeadlineExceeded):
		return errors.Join(fmt.Errorf("%s didn't end within %v of SIGTERM and was killed", p.Name, stopTimeout), p.Kill())
	default:
		return fmt.Errorf("stop %s: %w; its output ends with:\n%s", p.Name, err, p.LogTail())
	}
}

// LogTail returns the end of the process's output, for messages.
func (p *Process) LogTail() string {
	const size = 4 << 10
	file, err := os.Open(p.LogPath)
	if err != nil {
		return err.Error()
	}
	defer file.Close()
	if info, err := file.Stat(); err == nil && info.Size() > size {
		if _, err := file.Seek(-size, io.SeekEnd); err != nil {
			return err.Error()
		}
	}
	tail, err := io.ReadAll(file)
	if err != nil {
		return err.Error()
	}
	return strings.TrimRight(string(tail), "\n")
}

// RoomFlags prevent podexecd from evicting pods and removing images when the machine, which the node shares, is short
// of disk. The memory threshold is the kubelet's default. Later flags override these. A kubelet has them too.
var RoomFlags = []string{"--eviction-hard=memory.available<100Mi", "--image-gc-high-threshold=100"}

// HostFlags prevent podexecd from changing the kernel's settings, and from refusing a machine with swap: the node is a
// guest on a machine that isn't its own. Later flags override these.
var HostFlags = []string{"--tune-kernel=false", "--fail-swap-on=false"}

// newProcess returns a process that logs to Dir/log. Close ends it.
func (n *Node) newProcess(name, binary string, args ...string) *Process {
	p := &Process{Name: name, Args: args, LogPath: filepath.Join(n.dir, logDir, name+".log"), binary: binary, enter: stayHere}
	n.mu.Lock()
	defer n.mu.Unlock()
	n.processes = append(n.processes, p)
	return p
}

func stayHere(do func() error) error { return do() }

// StartDaemon starts a daemon by the name of its binary, which is in Config.BinDir or is built from cmd/NAME. Its
// output goes to log/NAME.log below the node's directory. Close kills it if it still runs.
func (n *Node) StartDaemon(name string, args ...string) (*Process, error) {
	return n.StartDaemonAs(name, name, args...)
}

// inNetwork are the programs that run in the node's network: agents, because they connect to pods for probes, and
// the API server that they use, if a test has one.
var inNetwork = []string{"podexecd", "kubelet", "kube-apiserver", "etcd"}

// StartDaemonAs is StartDaemon for a second process of one binary. as is the name of the process and of its log file.
func (n *Node) StartDaemonAs(as, name string, args ...string) (*Process, error) {
	p, err := n.NewDaemonAs(as, name, args...)
	if err != nil {
		return nil, err
	}
	if err := p.Start(); err != nil {
		return nil, err
	}
	return p, nil
}

// NewDaemonAs is StartDaemonAs without the start.
func (n *Node) NewDaemonAs(as, name string, args ...string) (*Process, error) {
	binary, err := n.binary(context.Background(), name)
	if err != nil {
		return nil, err
	}
	if name == "podexecd" {
		args = slices.Concat(n.cgroupFlags(as), RoomFlags, HostFlags, args)
	}
	p := n.newProcess(as, binary, args...)
	p.env = n.config.DaemonEnv
	if slices.Contains(inNetwork, name) {
		p.enter = n.InNetwork
	}
	return p, nil
}
