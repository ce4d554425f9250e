package recording

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"time"
)

// errCutOff means that the file ends in the middle of a line.
var errCutOff = errors.New("the file is cut off in this line")

// Reader reads a recording, message by message. Its errors name the file and the line. It isn't safe for concurrent
// use.
type Reader struct {
	name   string
	lines  *bufio.Reader
	file   *os.File // nil: NewReader didn't open it
	header Header

	line   int    // the number of the line read last, from 1
	buffer []byte // the content of that line
	last   time.Duration
	end    error // io.EOF, or the error that all further reads return
	cut    bool
}

// Open opens a file and reads its header.
func Open(path string) (*Reader, error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	r, err := NewReader(path, file)
	if err != nil {
		return nil, errors.Join(err, file.Close())
	}
	r.file = file
	return r, nil
}

// NewReader reads the header. The name appears in errors.
func NewReader(name string, in io.Reader) (*Reader, error) {
	r := &Reader{name: name, lines: bufio.NewReader(in)}
	gzipMagic := []byte{0x1f, 0x8b}
	// If Peek fails, reading the first line returns the same error.
	if start, _ := r.lines.Peek(len(gzipMagic)); bytes.Equal(start, gzipMagic) {
		plain, err := gzip.NewReader(r.lines)
		if err != nil {
			return nil, fmt.Errorf("%s: not a recording: its compression: %w", name, err)
		}
		r.lines = bufio.NewReader(plain)
	}
	line, err := r.next()
	if errors.Is(err, io.EOF) {
		return nil, fmt.Errorf("%s: not a recording: it is empty", name)
	}
	if err == nil {
		r.header, err = decodeHeader(line)
	}
	if err != nil {
		return nil, r.at(err)
	}
	return r, nil
}

// Header is the first line.
func (r *Reader) Header() Header { return r.header }

// Read returns the next message, or io.EOF after the last whole one.
func (r *Reader) Read() (Entry, error) {
	if r.end != nil {
		return Entry{}, r.end
	}
	e, err := r.read()
	switch {
	case err == nil:
		return e, nil
	case errors.Is(err, errCutOff):
		r.cut, r.end = true, io.EOF
	case errors.Is(err, io.EOF):
		r.end = io.EOF
	default:
		r.end = r.at(err)
	}
	return Entry{}, r.end
}

// CutOff reports whether the file ends in the middle of a line, or of its compressed data. It is valid once Read has
// returned io.EOF.
func (r *Reader) CutOff() bool { return r.cut }

// Close closes the file if Open opened it.
func (r *Reader) Close() error {
	if r.file == nil {
		return nil
	}
	return r.file.Close()
}

func (r *Reader) read() (Entry, error) {
	line, err := r.next()
	if err != nil {
		return Entry{}, err
	}
	e, err := decodeEntry(line)
	if err != nil {
		return Entry{}, err
	}
	if e.At < r.last {
		return Entry{}, fmt.Errorf("the message is of %v, the one before of %v: time goes back", e.At, r.last)
	}
	r.last = e.At
	return e, nil
}

// next returns the next line, which is valid until the next call. A last line without a line end counts as whole if it
// is a JSON value, because a part of an object is never one.
func (r *Reader) next() ([]byte, error) {
	r.line++
	r.buffer = r.buffer[:0]
	for {
		part, err := r.lines.ReadSlice('\n')
		r.buffer = append(r.buffer, part...)
		switch {
		case len(r.buffer) > MaxLine:
			return nil, errLineTooLong
		case err == nil:
			return r.buffer, nil
		case errors.Is(err, bufio.ErrBufferFull):
			continue
		case errors.Is(err, io.EOF) && len(r.buffer) == 0:
			return nil, io.EOF
		// The compression is cut off.
		case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
			if !json.Valid(r.buffer) {
				return nil, errCutOff
			}
			return r.buffer, nil
		default:
			return nil, fmt.Errorf("read the recording: %w", err)
		}
	}
}

func (r *Reader) at(err error) error { return fmt.Errorf("%s:%d: %w", r.name, r.line, err) }
