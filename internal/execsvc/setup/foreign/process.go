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
	"sync/atomic"
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
	// kind and target are those of its job. note is the file that says so.
	kind, target, note string

	cmd *exec.Cmd
	// number is the process's, or 0 before it is started.
	number atomic.Int64
	// theirs are the helper's ends of its input and output, which are closed when it has them.
	theirs [2]*os.File
	// in is the helper's input, which stays open until it ends, and out its output.
	in, out *os.File
	job     []byte
	// answered is closed when reply and err are set, and ended when the process and its children have ended.
	answered, ended chan struct{}
	reply           reply
	err             error

	mu sync.Mutex
	// reaped is set when the process's number may be another one's. refused is set when it may not be started any more.
	reaped, refused bool
}

// newProcess returns a helper. Either discard or start must be called. stream is the helper's end of that of a job; nil: it has none.
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
	out, helperOut, err := os.Pipe()
	if err != nil {
		return nil, errors.Join(err, in.Close(), helperIn.Close())
	}
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
	return &process{
		volume: volume, kind: job.kind(), target: job.target(), cmd: cmd, theirs: [2]*os.File{helperIn, helperOut}, in: in, out: out, job: data,
		answered: make(chan struct{}), ended: make(chan struct{}),
	}, nil
}

// start starts the helper. Unless it is an error, run must be called. fork starts its program.
func (p *process) start(fork func(*exec.Cmd) error) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.refused {
		p.discard()
		return ErrClosed
	}
	if err := fork(p.cmd); err != nil {
		p.discard()
		return err
	}
	p.number.Store(int64(p.cmd.Process.Pid))
	for _, end := range p.theirs {
		_ = end.Close()
	}
	return nil
}

// discard closes the pipes of a helper that isn't started.
func (p *process) discard() {
	for _, end := range []*os.File{p.theirs[0], p.theirs[1], p.in, p.out} {
		_ = end.Close()
	}
}

// pid returns the process's number, or 0 before it is started.
func (p *process) pid() int { return int(p.number.Load()) }

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
		p.err = fmt.Errorf("the helper process %d for volume %s ended without an answer: %w", p.pid(), p.volume, cmp.Or(exited, err))
		close(p.answered)
	}
	for wait := time.Millisecond; groupLives(p.pid()); wait = min(2*wait, groupInterval) {
		time.Sleep(wait)
	}
}

// reap waits for the end of the helper. Then it kills what the helper has left, and returns how it ended.
func (p *process) reap() error {
	for {
		// The zombie keeps its number, and so that of the group.
		err := unix.Waitid(unix.P_PID, p.pid(), nil, unix.WEXITED|unix.WNOWAIT, nil)
		if !errors.Is(err, unix.EINTR) {
			break
		}
	}
	p.mu.Lock()
	_ = unix.Kill(-p.pid(), unix.SIGKILL)
	p.reaped = true
	p.mu.Unlock()
	return p.cmd.Wait()
}

// kill kills the helper and what it has started. One that isn't started yet won't be.
func (p *process) kill() {
	p.mu.Lock()
	defer p.mu.Unlock()
	switch {
	case p.pid() == 0:
		p.refused = true
	case !p.reaped:
		_ = unix.Kill(-p.pid(), unix.SIGKILL)
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
