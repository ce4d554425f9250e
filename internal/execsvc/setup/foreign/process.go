package foreign

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// program is this process's own program, also after its file was replaced.
const program = "/proc/self/exe"

// groupInterval is how often, at the least, a helper's group is looked at, when the helper has ended and its children haven't.
const groupInterval = 100 * time.Millisecond

// errTooLarge is the error of a job that is larger than the helper reads.
var errTooLarge = errors.New("the job is too large")

// process is a running helper.
type process struct {
	volume string
	pid    int
	cmd    *exec.Cmd
	// in is the helper's input, which stays open until it ends, and out its output.
	in, out *os.File
	job     []byte
	// answered is closed when reply and err are set, and ended when the process and its children have ended.
	answered, ended chan struct{}
	reply           reply
	err             error

	mu sync.Mutex
	// reaped is set when the process's number may be another one's.
	reaped bool
}

// newProcess starts a helper. run must be called. stream is the helper's end of that of a job; nil: it has none.
func newProcess(volume string, job *Job, stream *os.File) (*process, error) {
	data, err := json.Marshal(job)
	if err != nil {
		return nil, err
	}
	if len(data) > maxJob {
		return nil, errTooLarge
	}
	helperIn, in, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	defer helperIn.Close()
	out, helperOut, err := os.Pipe()
	if err != nil {
		return nil, errors.Join(err, in.Close())
	}
	defer helperOut.Close()
	cmd := &exec.Cmd{
		Path: program, Args: []string{programName, jobFlag + job.kind(), shown(volume)}, Dir: "/",
		Env:   []string{"PATH=" + os.Getenv("PATH"), "GOMAXPROCS=2", "GOTRACEBACK=none"},
		Stdin: helperIn, Stdout: helperOut,
		// A signal to podexecd's group isn't for the helper, and the helper's group has what it starts.
		SysProcAttr: &syscall.SysProcAttr{Setpgid: true},
	}
	if stream != nil {
		cmd.ExtraFiles = []*os.File{stream}
	}
	if err := cmd.Start(); err != nil {
		return nil, errors.Join(err, in.Close(), out.Close())
	}
	return &process{
		volume: volume, pid: cmd.Process.Pid, cmd: cmd, in: in, out: out, job: data,
		answered: make(chan struct{}), ended: make(chan struct{}),
	}, nil
}

// shown returns the volume's name as an argument.
func shown(volume string) string {
	volume = strings.Map(func(r rune) rune {
		if r < ' ' || r == 0x7f {
			return '?'
		}
		return r
	}, volume)
	if len(volume) > maxVolume {
		volume = volume[:maxVolume]
	}
	return volume
}

// run exchanges the job and the answer, and returns when the helper has ended, and its children have.
func (p *process) run() {
	var writing sync.WaitGroup
	// A helper that has ended doesn't read it: there is no answer then.
	writing.Go(func() { _, _ = p.in.Write(p.job) })
	err := json.NewDecoder(io.LimitReader(p.out, maxReply)).Decode(&p.reply)
	if err == nil {
		close(p.answered)
		// Its job is done. Its own end may take a while.
		p.kill()
	}
	exited := p.reap()
	_ = p.in.Close()
	_ = p.out.Close()
	writing.Wait()
	if err != nil {
		p.err = fmt.Errorf("the helper process %d for volume %s ended without an answer: %w", p.pid, p.volume, cmp.Or(exited, err))
		close(p.answered)
	}
	for wait := time.Millisecond; groupLives(p.pid); wait = min(2*wait, groupInterval) {
		time.Sleep(wait)
	}
}

// reap waits for the end of the helper. Then it kills what the helper has left, and returns how it ended.
func (p *process) reap() error {
	for {
		// The zombie keeps its number, and so that of the group.
		err := unix.Waitid(unix.P_PID, p.pid, nil, unix.WEXITED|unix.WNOWAIT, nil)
		if !errors.Is(err, unix.EINTR) {
			break
		}
	}
	p.mu.Lock()
	_ = unix.Kill(-p.pid, unix.SIGKILL)
	p.reaped = true
	p.mu.Unlock()
	return p.cmd.Wait()
}

// kill kills the helper and what it has started.
func (p *process) kill() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.reaped {
		_ = unix.Kill(-p.pid, unix.SIGKILL)
	}
}

// hasAnswer reports whether the helper has answered. It must have ended.
func (p *process) hasAnswer() bool { return p.err == nil }

// answer returns the helper's answer, after answered.
func (p *process) answer() (Answer, error) {
	switch f := p.reply.Failure; {
	case p.err != nil:
		return Answer{}, p.err
	case f != nil:
		return Answer{}, &Error{Text: f.Text, Errno: unix.Errno(f.Errno), Outside: f.Outside, Unchanged: f.Unchanged, Reason: f.Reason}
	default:
		return p.reply.Answer, nil
	}
}
