package logmerge

import (
	"bytes"
	"errors"
	"io"

	podexecv1 "github.com/podstream/podstream/proto/podexec/v1"
)

// MaxLine is the maximum length of a line in bytes. A longer one is printed as several.
const MaxLine = 64 << 10

// Stream is a stream of podexec.v1.PodExecService.ReadLogs.
type Stream interface {
	// Recv returns io.EOF at the end of the log.
	Recv() (*podexecv1.ReadLogsResponse, error)
}

// entry is a line without its end, or the container that podexecd chose.
type entry struct {
	line      []byte
	defaulted *podexecv1.DefaultedContainer
}

// lines are the lines of one log.
type lines struct {
	stream Stream
	// pending are the incomplete lines of standard output and standard error.
	pending [2][]byte
	ready   []entry
	// err is why the stream ended. Nil: it hasn't.
	err error
}

// next returns the next entry. The error is io.EOF at the end of the log.
func (l *lines) next() (entry, error) {
	for len(l.ready) == 0 {
		if l.err != nil {
			return entry{}, l.err
		}
		l.receive()
	}
	first := l.ready[0]
	l.ready = l.ready[1:]
	return first, nil
}

// receive adds the lines of one message.
func (l *lines) receive() {
	m, err := l.stream.Recv()
	if err != nil {
		l.err = err
		for i, rest := range l.pending {
			// The last line of a log may have no end. After a failure it may be cut, and is printed too.
			if len(rest) > 0 {
				l.ready, l.pending[i] = append(l.ready, entry{line: rest}), nil
			}
		}
		return
	}
	if d := m.GetDefaulted(); d != nil {
		l.ready = append(l.ready, entry{defaulted: d})
	}
	at := &l.pending[0]
	if m.GetStderr() {
		at = &l.pending[1]
	}
	for data := m.GetData(); len(data) > 0; {
		part, rest, ended := bytes.Cut(data, []byte("\n"))
		if room := MaxLine - len(*at); len(part) > room {
			part, rest, ended = data[:room], data[room:], true
		}
		*at = append(*at, part...)
		if ended {
			l.ready, *at = append(l.ready, entry{line: *at}), nil
		}
		data = rest
	}
}

// failure returns nil for the end of a log.
func failure(err error) error {
	if errors.Is(err, io.EOF) {
		return nil
	}
	return err
}
