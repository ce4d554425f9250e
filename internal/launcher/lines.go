package launcher

import (
	"bufio"
	"bytes"
	"errors"
	"io"
	"sync"

	"golang.org/x/sys/unix"
)

// maxLine bounds a line of a daemon's output, in bytes. A longer one is cut in several.
const maxLine = 64 << 10

// sink is a writer of several daemons' lines.
type sink struct {
	mu sync.Mutex
	w  io.Writer
	// closed is called when the other end of w is closed: no line can be written any more.
	closed func()
}

func (s *sink) Write(line []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	n, err := s.w.Write(line)
	if errors.Is(err, unix.EPIPE) {
		s.closed()
	}
	return n, err
}

// lines writes a daemon's lines with the daemon's name: as the first attribute of a line of text, or the first field of a
// JSON object.
type lines struct {
	daemon string
	to     io.Writer
}

// copy copies lines until the end of r.
func (l *lines) copy(r io.Reader) error {
	in := bufio.NewReaderSize(r, maxLine)
	for {
		line, err := in.ReadSlice('\n')
		if len(line) > 0 {
			// A standard error that can't be written to must not stop the daemon.
			_, _ = l.to.Write(l.named(line))
		}
		switch {
		case errors.Is(err, io.EOF):
			return nil
		case err != nil && !errors.Is(err, bufio.ErrBufferFull):
			return err
		}
	}
}

func (l *lines) named(line []byte) []byte {
	line = bytes.TrimSuffix(line, []byte("\n"))
	out := make([]byte, 0, len(line)+len(l.daemon)+16)
	if rest, ok := bytes.CutPrefix(line, []byte(`{"`)); ok {
		out = append(append(append(out, `{"daemon":"`...), l.daemon...), `","`...)
		return append(append(out, rest...), '\n')
	}
	out = append(append(append(out, "daemon="...), l.daemon...), ' ')
	return append(append(out, line...), '\n')
}
