package containerlog

import (
	"bytes"
	"time"
)

// timeFormat has all digits, so that all times have the same length.
const timeFormat = "2006-01-02T15:04:05.000000000Z07:00"

// message is a line of a log: as in "2026-01-02T03:04:05.123456789Z stdout F the text\n". P in place of F is a line
// that continues in the next message.
type message struct {
	at              time.Time
	stderr, partial bool
	text            []byte
}

// trim removes the end of the line from the text of a message that continues in the next one.
func (m *message) trim(text []byte) []byte {
	if m.partial {
		return bytes.TrimSuffix(text, []byte{'\n'})
	}
	return text
}

// parse parses a line. It reports whether the format is right.
func parse(line []byte) (m message, ok bool) {
	at, rest, _ := bytes.Cut(line, []byte{' '})
	stream, rest, _ := bytes.Cut(rest, []byte{' '})
	tags, text, ok := bytes.Cut(rest, []byte{' '})
	if !ok {
		return message{}, false
	}
	var err error
	if m.at, err = time.Parse(time.RFC3339Nano, string(at)); err != nil {
		return message{}, false
	}
	switch string(stream) {
	case "stdout":
	case "stderr":
		m.stderr = true
	default:
		return message{}, false
	}
	// More tags may follow the first one.
	first, _, _ := bytes.Cut(tags, []byte{':'})
	m.partial = string(first) == "P"
	m.text = m.trim(text)
	return m, true
}
