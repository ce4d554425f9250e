package containerlog

import (
	"bytes"
	"context"
	"errors"
	"io"
	"io/fs"
	"os"

	"github.com/podstream/podstream/internal/openfile"
)

const (
	// chunk is the size of one read.
	chunk = 16 << 10
	// maxPart is the length from which a line is read in parts. Runtimes split a container's output into lines of 16
	// KiB, unless their configuration has another length.
	maxPart = 32 << 10
)

// file is an open log.
type file struct {
	*os.File
	// from is what is read: the file, or what is compressed in it.
	from io.Reader
	// data[begin:] was read, and isn't part of a returned line yet.
	data  []byte
	begin int
	// within is set if the current line was returned in parts so far.
	within bool
	// skipping is set if the current line is left out.
	skipping bool
}

// open opens the log. If it has been renamed to be rotated, and the runtime hasn't made a new one yet, that is the
// renamed one.
func open(dir, name string) (*file, error) {
	f, err := openfile.OpenBeneath(dir, name)
	if errors.Is(err, fs.ErrNotExist) {
		if renamed := openRenamed(dir, name); renamed != nil {
			return renamed, nil
		}
	}
	if err != nil {
		return nil, err
	}
	return &file{File: f, from: f}, nil
}

func (f *file) close() { _ = f.File.Close() }

// next returns the next line, or the next part of a long one, which is valid until the next call. begins reports
// whether it is the start of a line. io.EOF: there is none yet. With last, an unterminated line at the end of the file
// is returned too.
func (f *file) next(ctx context.Context, last bool) (part []byte, begins bool, err error) {
	for {
		waiting := f.data[f.begin:]
		at := bytes.IndexByte(waiting, '\n')
		switch {
		case at >= 0 && f.skipping:
			f.begin += at + 1
			f.skipping = false
			continue
		case at >= 0:
			f.begin += at + 1
			begins, f.within = !f.within, false
			return waiting[:at+1], begins, nil
		case f.skipping:
			f.begin = len(f.data)
		case len(waiting) >= maxPart:
			part, begins = f.rest()
			return part, begins, nil
		}
		err := f.fill(ctx)
		if errors.Is(err, io.EOF) && last && len(f.data) > f.begin && !f.skipping {
			part, begins = f.rest()
			return part, begins, nil
		}
		if err != nil {
			return nil, false, err
		}
	}
}

// rest returns all buffered data as a part of an unfinished line.
func (f *file) rest() (part []byte, begins bool) {
	part, begins = f.data[f.begin:], !f.within
	f.begin, f.within = len(f.data), true
	return part, begins
}

// fill reads more.
func (f *file) fill(ctx context.Context) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	f.data = f.data[:copy(f.data, f.data[f.begin:])]
	f.begin = 0
	have := len(f.data)
	if cap(f.data)-have < chunk {
		f.data = append(make([]byte, 0, have+chunk), f.data...)
	}
	n, err := f.from.Read(f.data[have : have+chunk])
	f.data = f.data[:have+n]
	return err
}

// seekLines seeks to the start of the last lines. An unterminated line doesn't count. back bounds the search in bytes
// from the end; zero: no bound.
func (f *file) seekLines(ctx context.Context, lines, back int64) error {
	end, err := f.Seek(0, io.SeekEnd)
	if err != nil {
		return err
	}
	first := int64(0)
	if back > 0 {
		first = max(0, end-back)
	}
	buffer := make([]byte, chunk)
	// The search is for the end of the line before them.
	for at := end; at > first; {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		from := max(first, at-chunk)
		part := buffer[:at-from]
		if _, err := f.ReadAt(part, from); err != nil && !errors.Is(err, io.EOF) {
			return err
		}
		for i := len(part) - 1; i >= 0; i-- {
			if part[i] != '\n' {
				continue
			}
			if lines == 0 {
				_, err := f.Seek(from+int64(i)+1, io.SeekStart)
				return err
			}
			lines--
		}
		at = from
	}
	if first > 0 {
		// The position is within a line.
		f.skipping = true
	}
	_, err = f.Seek(first, io.SeekStart)
	return err
}
