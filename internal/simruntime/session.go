package simruntime

import (
	"fmt"
	"io"

	"k8s.io/cri-streaming/pkg/streaming/remotecommand"
)

// session is a process's side of a stream: its input and output.
type session struct {
	in          io.Reader // nil without standard input
	out, stderr io.Writer // never nil
	tty         bool
	resize      <-chan remotecommand.TerminalSize
}

// Program is an executable of a test. It returns the exit code. in is nil without standard input.
type Program func(args []string, in io.Reader, out, stderr io.Writer) int32

// with returns the program's run with these arguments.
func (p Program) with(args []string) func(session) int32 {
	return func(s session) int32 { return p(args, s.in, s.out, s.stderr) }
}

// detaching is the input of an attached client whose end doesn't end the process's.
type detaching struct {
	io.Reader
	// detached is closed at the end.
	detached chan struct{}
}

// Read implements io.Reader.
func (d *detaching) Read(p []byte) (int, error) {
	n, err := d.Reader.Read(p)
	if err != nil && !d.over() {
		close(d.detached)
	}
	return n, err
}

// over reports whether the client's input has ended.
func (d *detaching) over() bool {
	select {
	case <-d.detached:
		return true
	default:
		return false
	}
}

// copyStdin is the "stdin" command of the sample program.
func copyStdin(s session) int32 {
	if s.in == nil {
		return 0
	}
	if _, err := io.Copy(s.out, s.in); err != nil {
		fmt.Fprintf(s.stderr, "sample: %v\n", err)
		return exitFailed
	}
	return 0
}

// watchTerminal is the "tty" command of the sample program. It prints each size of the terminal until the size is the
// wanted one, or only once if wanted is empty.
func watchTerminal(wanted string) func(s session) int32 {
	return func(s session) int32 {
		if !s.tty {
			fmt.Fprintln(s.out, "no terminal")
			if wanted != "" {
				return exitFailed
			}
			return 0
		}
		for size := range s.resize {
			now := fmt.Sprintf("%dx%d", size.Width, size.Height)
			fmt.Fprintln(s.out, "terminal "+now)
			if wanted == "" || now == wanted {
				return 0
			}
		}
		return exitFailed
	}
}
