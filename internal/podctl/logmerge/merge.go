package logmerge

import (
	"bytes"
	"fmt"
	"io"
	"time"

	podexecv1 "github.com/podstream/podstream/proto/podexec/v1"
)

// Log is the log of a container.
type Log struct {
	// Name is for errors.
	Name string
	// Container is the container's name. Empty: podexecd chooses, and reports which one if there are several.
	Container string
	// Prefix returns what is printed before each line of the container, with a space between. Nil: nothing is.
	Prefix func(container string) string
	Stream Stream
}

// Config configures Merge and Follow.
type Config struct {
	Logs []Log
	// Out receives each line in one Write.
	Out io.Writer
	// Timed is set if the streams have lines with their times, and Timestamps if they are printed with them.
	Timed, Timestamps bool
	// Failed is called when a log fails. The others go on. It is required.
	Failed func(Log, error)
	// Defaulted is called for a log whose container podexecd chose. It is required.
	Defaulted func(*podexecv1.DefaultedContainer)
}

// source is a log that is being merged.
type source struct {
	Log
	lines lines
	// head is the first line that isn't printed, with its time. Ended is set if there is none.
	head  []byte
	at    time.Time
	ended bool
}

// Merge prints the logs in the order of their times; without times, one after the other. Their streams must not be followed. A
// line without a time, such as the rest of a long one, keeps its place after the line before it. The error is that of Out.
func Merge(cfg Config) error {
	sources := make([]*source, len(cfg.Logs))
	for i, log := range cfg.Logs {
		sources[i] = &source{Log: log, lines: lines{stream: log.Stream}}
		sources[i].advance(cfg)
	}
	for {
		var first *source
		for _, s := range sources {
			if !s.ended && (first == nil || s.at.Before(first.at)) {
				first = s
			}
		}
		if first == nil {
			return nil
		}
		if err := cfg.print(first.Log, first.head); err != nil {
			return err
		}
		first.advance(cfg)
	}
}

// advance reads the next line.
func (s *source) advance(cfg Config) {
	e, err := s.lines.next()
	for err == nil && e.defaulted != nil {
		cfg.chosen(&s.Log, e.defaulted)
		e, err = s.lines.next()
	}
	if err != nil {
		if err = failure(err); err != nil {
			cfg.Failed(s.Log, err)
		}
		s.ended = true
		return
	}
	s.head = e.line
	if !cfg.Timed {
		return
	}
	word, rest, ok := bytes.Cut(e.line, []byte(" "))
	if at, err := time.Parse(time.RFC3339Nano, string(word)); ok && err == nil {
		s.at = at
		if !cfg.Timestamps {
			s.head = rest
		}
	}
}

// chosen reports the container that podexecd chose for a log.
func (cfg Config) chosen(log *Log, d *podexecv1.DefaultedContainer) {
	log.Container = d.GetName()
	cfg.Defaulted(d)
}

// print prints one line.
func (cfg Config) print(log Log, line []byte) error {
	var out []byte
	if log.Prefix != nil {
		out = append([]byte(log.Prefix(log.Container)), ' ')
	}
	out = append(append(out, line...), '\n')
	if _, err := cfg.Out.Write(out); err != nil {
		return fmt.Errorf("print: %w", err)
	}
	return nil
}
