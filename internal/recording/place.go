package recording

import (
	"errors"
	"fmt"
	"io"
	"slices"
	"time"

	"google.golang.org/protobuf/proto"

	podconfigv1 "github.com/podstream/podstream/proto/podconfig/v1"
)

// Summary describes a recording.
type Summary struct {
	Header Header
	// Messages is the number of messages up to the end of the last whole revision. A consumer can't use later ones.
	Messages int
	// Revisions is the number of revisions; the initial state counts as one.
	Revisions int
	// Duration is the time of the last of the Messages.
	Duration time.Duration
	// CutOff is set if the file ends in the middle of a line, or of its compressed data.
	CutOff bool
}

// Summarize reads a whole recording.
func Summarize(path string) (Summary, error) {
	r, err := Open(path)
	if err != nil {
		return Summary{}, err
	}
	defer func() { _ = r.Close() }() // It was only read.
	s := Summary{Header: r.Header()}
	var at place
	for n := 1; ; n++ {
		e, err := r.Read()
		if errors.Is(err, io.EOF) {
			s.CutOff = r.CutOff()
			return s, nil
		}
		if err != nil {
			return Summary{}, err
		}
		before := at.cursor
		at.pass(e)
		if !proto.Equal(before, at.cursor) {
			s.Revisions++
		}
		if !at.inside {
			s.Messages, s.Duration = n, e.At
		}
	}
}

// place is a consumer's position in a recording, and podconfigd's state at that position. The zero value is the start.
// The messages that it refers to aren't changed.
type place struct {
	passed int           // the number of messages before the position
	at     time.Duration // the time of the last of them
	cursor *podconfigv1.Cursor
	inside bool // within a revision, before its cursor
	synced bool
	// sources and store are as last reported.
	sources []*podconfigv1.SourceReadiness
	store   podconfigv1.StoreState
}

// pass moves the position past the next message.
func (p *place) pass(e Entry) {
	p.passed++
	p.at = e.At
	switch event := e.Message.GetEvent().(type) {
	case *podconfigv1.WatchPodUpdatesResponse_Update:
		p.inside = true
		if event.Update.GetSourceReady() {
			p.ready(event.Update.GetSource())
		}
	case *podconfigv1.WatchPodUpdatesResponse_Synced:
		p.synced = true
		p.sources = event.Synced.GetSources()
	case *podconfigv1.WatchPodUpdatesResponse_Heartbeat:
		p.sources, p.store = event.Heartbeat.GetSources(), event.Heartbeat.GetStoreState()
	}
	if c := e.Message.GetCursor(); c != nil {
		p.cursor, p.inside = c, false
	}
}

// ready marks a source as ready. The list may belong to a message that is sent, so it is copied.
func (p *place) ready(source string) {
	i := slices.IndexFunc(p.sources, func(s *podconfigv1.SourceReadiness) bool { return s.GetName() == source })
	if i < 0 || p.sources[i].GetReady() {
		return
	}
	p.sources = slices.Clone(p.sources)
	p.sources[i] = &podconfigv1.SourceReadiness{Name: source, Ready: true}
}

// locate returns the place of a cursor among the first messages of a recording, or the zero place if none of them has
// it. If several messages have the cursor, locate returns the place after the last one: they belong to one revision,
// or change nothing for the consumer.
func locate(path string, messages int, cursor *podconfigv1.Cursor) (place, error) {
	var at, found place
	if cursor == nil {
		return found, nil
	}
	r, err := Open(path)
	if err != nil {
		return place{}, err
	}
	defer func() { _ = r.Close() }() // It was only read.
	for at.passed < messages {
		e, err := r.Read()
		if err != nil {
			return place{}, err
		}
		at.pass(e)
		if proto.Equal(e.Message.GetCursor(), cursor) {
			found = at
		}
	}
	return found, nil
}

// openAt opens a recording for reading from a place.
func openAt(path string, at place) (*Reader, error) {
	r, err := Open(path)
	if err != nil {
		return nil, err
	}
	for range at.passed {
		if _, err := r.Read(); err != nil {
			return nil, errors.Join(fmt.Errorf("go to message %d: %w", at.passed, err), r.Close())
		}
	}
	return r, nil
}
