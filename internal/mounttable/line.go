package mounttable

import (
	"bufio"
	"bytes"
	"strconv"
	"strings"
)

const (
	// maxText bounds what is kept of a field. No system call takes a path that long, so one that was cut is equal to none, and it is below
	// the same directories as the whole path is.
	maxText = 8192
	// escaped is the length of an escape, such as \040.
	escaped    = 4
	bufferSize = 64 << 10
)

// The fields of a line. Optional ones follow, then "-", and those of the file system.
const (
	idField = iota
	parentField
	deviceField
	rootField
	pointField
	optionsField
	fieldCount
)

const (
	typeField = iota
	sourceField
	fsOptionsField
	fsFieldCount
)

// text is a field as the table has it.
type text struct {
	raw []byte
	cut bool
}

func (t *text) add(b byte) {
	if len(t.raw) < escaped*maxText {
		t.raw = append(t.raw, b)
	} else {
		t.cut = true
	}
}

func (t *text) reset() { t.raw, t.cut = t.raw[:0], false }

// String returns the field without escapes.
func (t *text) String() string {
	if !bytes.Contains(t.raw, []byte{'\\'}) {
		return string(t.raw)
	}
	var s strings.Builder
	for i := 0; i < len(t.raw); i++ {
		b := t.raw[i]
		if b == '\\' && i+escaped <= len(t.raw) {
			if n, err := strconv.ParseUint(string(t.raw[i+1:i+escaped]), 8, 8); err == nil {
				b = byte(n)
				i += escaped - 1
			}
		}
		s.WriteByte(b)
	}
	return s.String()
}

// number returns the field as a number; ok is false if it isn't one.
func (t *text) number() (n int, ok bool) {
	n, err := strconv.Atoi(string(t.raw))
	return n, err == nil && !t.cut
}

// reader reads lines of any length.
type reader struct {
	in *bufio.Reader
	// fields are reused for each line.
	fields   [fieldCount]text
	fsFields [fsFieldCount]text
	optional text
}

// next reads a line. is reports whether it is a mount's: no mount's line lacks the first fields, which are numbers and paths. Another one
// is what a file system's options have after a newline.
func (r *reader) next() (m Mount, is bool, err error) {
	for i := range r.fields {
		r.fields[i].reset()
	}
	for i := range r.fsFields {
		r.fsFields[i].reset()
	}
	r.optional.reset()
	count, separated, to := 0, false, &r.fields[0]
	for {
		b, err := r.in.ReadByte()
		if err != nil || b == '\n' {
			is := r.decode(&m)
			return m, is, err
		}
		if b != ' ' {
			to.add(b)
			continue
		}
		count++
		if to == &r.optional && string(r.optional.raw) == "-" {
			count, separated = 0, true
		}
		switch {
		case separated && count < fsFieldCount:
			to = &r.fsFields[count]
		case !separated && count < fieldCount:
			to = &r.fields[count]
		default: // After the last field of a file system, nothing is kept.
			to = &r.optional
			to.reset()
			if separated {
				to.raw = append(to.raw, '.') // It isn't another separator.
			}
		}
	}
}

// decode sets the mount to the line's.
func (r *reader) decode(m *Mount) bool {
	var ok [4]bool
	m.ID, ok[0] = r.fields[idField].number()
	m.Parent, ok[1] = r.fields[parentField].number()
	device := string(r.fields[deviceField].raw)
	major, minor, _ := strings.Cut(device, ":")
	var err error
	m.Major, err = strconv.Atoi(major)
	ok[2] = err == nil
	m.Minor, err = strconv.Atoi(minor)
	ok[3] = err == nil
	m.Root, m.CutRoot = r.fields[rootField].String(), r.fields[rootField].cut
	m.Point = r.fields[pointField].String()
	m.Type, m.Source = r.fsFields[typeField].String(), r.fsFields[sourceField].String()
	m.Options, m.FSOptions = options(r.fields[optionsField]), options(r.fsFields[fsOptionsField])
	return ok == [4]bool{true, true, true, true} && strings.HasPrefix(m.Point, "/")
}
