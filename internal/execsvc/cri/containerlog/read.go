package containerlog

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"time"
)

// ErrFormat is the error of a log whose first line isn't in the format of the CRI.
var ErrFormat = errors.New("it is not a container's log in the format of the CRI")

// Log names a log.
type Log struct {
	// Dir is the directory of all logs, which is trusted. Name is relative to it.
	Dir, Name string
	// Since leaves out older lines. Zero: none.
	Since time.Time
	// Tail and Limit are the most lines and bytes that are read. Nil: all. Back bounds the search for the lines of
	// Tail, in bytes from the end; zero: no bound.
	Tail, Limit *int64
	Back        int64
	// Timestamps begins each line with its time.
	Timestamps bool
	// Stdout and Stderr get the lines. Nil: those lines are left out.
	Stdout, Stderr io.Writer
	// Running is called when all of a followed log is read. It reports whether the log may still grow. Nil: the log
	// isn't followed.
	Running func(context.Context) (bool, error)
	// Watch notifies of changes of a followed log. Nil: the log is checked each second.
	Watch *Watch
}

// errEnough ends the reading when Limit is reached, or what the log had at its container's end.
var errEnough = errors.New("the byte limit is reached")

// reading is one call of Read.
type reading struct {
	Log
	ctx context.Context //nolint:containedctx // It is the context of that one call.
	// left and lines are how many more bytes and lines may be written.
	left, lines int64
	// understood is set after a line in the right format; begun is set after a line was written without its end.
	understood, begun bool
	// foreign is how much was read in a row that isn't in the right format.
	foreign int
	// listed is when the directory was last listed although there was no current log.
	listed time.Time
	end
	// line is the current line without its text, and nonsense is set if its format is wrong.
	line     message
	nonsense bool
}

// Read reads the log to its end, or until Running reports that it doesn't grow any more. The error for a missing log is
// fs.ErrNotExist; other errors of opening are those of package openfile.
func Read(ctx context.Context, l Log) error {
	r := &reading{Log: l, ctx: ctx, left: math.MaxInt64, lines: math.MaxInt64}
	if l.Limit != nil {
		r.left = *l.Limit
	}
	f, err := open(l.Dir, l.Name)
	if err != nil {
		return err
	}
	defer func() { f.close() }()
	if l.Tail != nil {
		if err := f.seekLines(ctx, *l.Tail, l.Back); err != nil {
			return fmt.Errorf("look for the last lines: %w", err)
		}
		if l.Running == nil {
			r.lines = *l.Tail
		}
	}
	if l.Running == nil {
		if err = f.bound(); err == nil {
			err = r.all(f, true)
		}
	} else {
		err = r.follow(&f)
	}
	if errors.Is(err, errEnough) {
		return nil
	}
	return err
}

// all reads to the end of the file. With last, an unterminated line counts too.
func (r *reading) all(f *file, last bool) error {
	for r.lines > 0 || f.within {
		part, begins, err := f.next(r.ctx, last)
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		if err := r.write(part, begins); err != nil {
			return err
		}
		if err := r.count(f, len(part)); err != nil {
			return err
		}
	}
	return nil
}

// write writes a line, or a part of a long one, as the options require.
func (r *reading) write(part []byte, begins bool) error {
	m, ok := r.messageOf(part, begins)
	if !ok {
		if r.foreign += len(part); !r.understood || r.foreign > maxForeign {
			return ErrFormat
		}
		return nil
	}
	r.foreign = 0
	starts := begins && !r.begun
	r.begun = len(m.text) > 0 && m.text[len(m.text)-1] != '\n'
	to := r.Stdout
	if m.stderr {
		to = r.Stderr
	}
	if to == nil || m.at.Before(r.Since) {
		return nil
	}
	text := m.text
	if r.Timestamps && starts {
		text = append(m.at.AppendFormat(nil, timeFormat+" "), text...)
	}
	text = text[:min(int64(len(text)), r.left)]
	n, err := to.Write(text)
	r.left -= int64(n)
	switch {
	case err != nil:
		return err
	case n < len(text):
		return io.ErrShortWrite
	case r.left == 0:
		return errEnough
	}
	return nil
}

// messageOf returns a line, or a part of one as a message of its own. It reports whether the line's format is right.
func (r *reading) messageOf(part []byte, begins bool) (m message, ok bool) {
	if begins {
		m, ok = parse(part)
		r.line, r.nonsense = message{at: m.at, stderr: m.stderr, partial: m.partial}, !ok
		if ok {
			r.understood = true
			r.lines--
		}
		return m, ok
	}
	m = r.line
	m.text = m.trim(part)
	return m, !r.nonsense
}
