package calllog

import (
	"bufio"
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"time"

	"google.golang.org/grpc/codes"
)

// Log is what Read has read.
type Log struct {
	// Calls are in the order of their begins.
	Calls []*Call
	// Starts and Registrations are the records of these events, in order.
	Starts, Registrations []Record
	// Torn is the number of incomplete lines, each from a crash of the machine.
	Torn int
}

// Call is a call of a log.
type Call struct {
	Record // of Begin
	// Stages and Attaches are those of the call's run.
	Stages, Attaches bool
	// began and ended are the places of its events in the log. ended is zero for a call without an end.
	began, ended, gone int
	// off is the place of the Off of the call's node, or zero.
	off int
	// Ended reports whether the call has ended with an answer. Cut reports whether its run ended before. If both are false, the call
	// was under way when the log was read.
	Ended, Cut bool
	// EndTime, Code, Message and Fault are those of the End.
	EndTime time.Time
	Code    codes.Code
	Message string
	Fault   string
	// CallerGone reports whether the caller didn't wait for the answer.
	CallerGone bool
}

// String is for messages.
func (c *Call) String() string {
	end := "under way"
	switch {
	case c.Ended:
		end = c.Code.String()
	case c.Cut:
		end = "cut off"
	}
	if c.CallerGone {
		end += ", caller gone"
	}
	text := fmt.Sprintf("%s call %d: %s(%s", c.Time.Format("15:04:05.000000"), c.Call, c.Method, c.Volume)
	if path := cmp.Or(c.Target, c.Staging); path != "" {
		text += " at " + path
	}
	return text + " on " + c.Node + "): " + end
}

// driverOf identifies a driver on a node.
type driverOf struct{ driver, node string }

type callOf struct {
	run  string
	call int
}

// Read reads a log. A line that can't be read is an error, unless a Start or nothing follows it: the driver's machine crashed then.
func Read(path string) (*Log, error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	log, err := read(file)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return log, nil
}

func read(from io.Reader) (*Log, error) {
	r := reader{log: &Log{}, starts: map[string]Record{}, open: map[callOf]*Call{}}
	lines := bufio.NewReader(from)
	torn := 0 // the number of an incomplete line, until a Start follows
	for number := 1; ; number++ {
		line, err := lines.ReadBytes('\n')
		if errors.Is(err, io.EOF) {
			if len(line) > 0 {
				r.log.Torn++
			}
			return r.log, nil
		}
		if err != nil {
			return nil, err
		}
		var record Record
		decoder := json.NewDecoder(bytes.NewReader(line))
		decoder.DisallowUnknownFields()
		if err := decoder.Decode(&record); err != nil {
			if torn != 0 {
				return nil, fmt.Errorf("line %d: %w", torn, err)
			}
			torn = number
			continue
		}
		if torn != 0 {
			if record.Event != Start {
				return nil, fmt.Errorf("line %d isn't a record, and no start follows", torn)
			}
			r.log.Torn++
			torn = 0
		}
		if err := r.add(number, record); err != nil {
			return nil, fmt.Errorf("line %d: %w", number, err)
		}
	}
}

// reader makes calls of records.
type reader struct {
	log    *Log
	starts map[string]Record // by run
	open   map[callOf]*Call
}

func (r *reader) add(number int, record Record) error {
	if record.Event == Start {
		r.start(number, record)
		return nil
	}
	if record.Event == Off {
		r.off(number, driverOf{record.Driver, record.Node})
		return nil
	}
	start, known := r.starts[record.Run]
	if !known {
		return fmt.Errorf("%s of run %q, which hasn't started or is over", record.Event, record.Run)
	}
	if record.Event == Registration {
		r.log.Registrations = append(r.log.Registrations, record)
		return nil
	}
	id := callOf{record.Run, record.Call}
	if record.Event == Begin {
		c := &Call{Record: record, Stages: start.Stages, Attaches: start.Attaches, began: number}
		r.log.Calls = append(r.log.Calls, c)
		r.open[id] = c
		return nil
	}
	c := r.open[id]
	if c == nil {
		return fmt.Errorf("%s of call %d, which isn't under way", record.Event, record.Call)
	}
	switch record.Event {
	case Gone:
		c.CallerGone, c.gone = true, number
	case End:
		delete(r.open, id)
		c.Ended, c.ended, c.EndTime = true, number, record.Time
		c.Code, c.Message, c.Fault = record.Code, record.Message, record.Fault
	default:
		return fmt.Errorf("unknown event %q", record.Event)
	}
	return nil
}

// start ends what an earlier run of the driver has left.
func (r *reader) start(number int, record Record) {
	r.log.Starts = append(r.log.Starts, record)
	r.cut(number, driverOf{record.Driver, record.Node})
	r.starts[record.Run] = record
}

// off ends all that a driver has on a node.
func (r *reader) off(number int, of driverOf) {
	r.cut(number, of)
	for _, c := range r.log.Calls {
		if of == (driverOf{c.Driver, c.Node}) && c.off == 0 {
			c.off = number
		}
	}
}

// cut ends the runs of a driver on a node, with their calls.
func (r *reader) cut(number int, of driverOf) {
	for run, s := range r.starts {
		if (driverOf{s.Driver, s.Node}) == of {
			delete(r.starts, run)
		}
	}
	for id, c := range r.open {
		if (driverOf{c.Driver, c.Node}) == of {
			c.Cut, c.ended = true, number
			delete(r.open, id)
		}
	}
}

// Of returns the calls of these methods, in order.
func (l *Log) Of(methods ...string) (found []*Call) {
	for _, c := range l.Calls {
		if slices.Contains(methods, c.Method) {
			found = append(found, c)
		}
	}
	return found
}
