package launcher

import (
	"errors"
	"io"
	"os"
	"os/exec"
	"time"

	"golang.org/x/sys/unix"
)

// maxRest bounds what is read of the output of a daemon that has ended, in bytes. It is more than a pipe holds by default.
const maxRest = 1 << 20

// pipe is the output of a daemon.
type pipe struct {
	r, w *os.File
	// rest is how many bytes are still read once the daemon has ended. Only Read uses it.
	rest int
}

func (c *child) pipes(cmd *exec.Cmd) (stdout, stderr *pipe, err error) {
	stdout, stderr = &pipe{rest: maxRest}, &pipe{rest: maxRest}
	if stdout.r, stdout.w, err = os.Pipe(); err != nil {
		return nil, nil, err
	}
	if stderr.r, stderr.w, err = os.Pipe(); err != nil {
		stdout.close()
		return nil, nil, err
	}
	cmd.Stdout, cmd.Stderr = stdout.w, stderr.w
	return stdout, stderr, nil
}

// Read waits for output until the daemon has ended. Then it returns what is in the pipe, which has everything that the daemon
// wrote, and io.EOF: a process that the daemon started may keep the pipe open.
func (p *pipe) Read(b []byte) (int, error) {
	n, err := p.r.Read(b)
	if !errors.Is(err, os.ErrDeadlineExceeded) {
		return n, err
	}
	return p.readRest(b)
}

// readRest reads without waiting.
func (p *pipe) readRest(b []byte) (n int, err error) {
	raw, err := p.r.SyscallConn()
	if err != nil {
		return 0, err
	}
	b = b[:min(len(b), p.rest)]
	if len(b) == 0 {
		return 0, io.EOF
	}
	// Without a deadline, the function is called at once, and is not called again.
	_ = p.r.SetReadDeadline(time.Time{}) // A pipe has deadlines.
	var failed error
	err = raw.Read(func(fd uintptr) bool {
		n, failed = unix.Read(int(fd), b)
		return true
	})
	p.end()
	n = max(n, 0)
	p.rest -= n
	switch {
	case err != nil:
		return n, err
	case errors.Is(failed, unix.EAGAIN), failed == nil && n == 0:
		return 0, io.EOF
	}
	return n, failed
}

// started closes the end that the daemon has.
func (p *pipe) started() { _ = p.w.Close() }

// end reports that the daemon has ended.
func (p *pipe) end() { _ = p.r.SetReadDeadline(time.Now()) }

func (p *pipe) close() {
	_ = p.r.Close()
	_ = p.w.Close()
}
