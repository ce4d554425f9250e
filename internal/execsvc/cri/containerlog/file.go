package containerlog

import (
	"bytes"
	"context"
	"errors"
	"io"
	"io/fs"
	"os"

	"golang.org/x/sys/unix"

	"github.com/podstream/podstream/internal/openfile"
)

const (
	// chunk is the size of one read.
	chunk = 16 << 10
	// maxPart is the length from which a line is read in parts. Runtimes split a container's output into lines of 16
	// KiB, unless their configuration has another length.
	maxPart = 32 << 10
	// maxForeign is how much may be in a row that isn't a log's line, or without an end of line before the last lines: a
	// crash of the node can leave such data in a log.
	maxForeign = 16 << 20
)

// file is an open log.
type file struct {
	*os.File
	// from is what is read: the file, or what is compressed in it.
	from io.Reader
	// stop is the offset up to which the file is read. Zero: to its end.
	stop int64
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
	room := int64(chunk)
	if f.stop > 0 {
		at, err := f.Seek(0, io.SeekCurrent)
		if err != nil {
			return err
		}
		if room = min(room, f.stop-at); room <= 0 {
			return io.EOF
		}
	}
	n, err := f.from.Read(f.data[have : have+int(room)])
	f.data = f.data[:have+n]
	if err == nil && f.from == io.Reader(f.File) && len(bytes.TrimLeft(f.data[have:], "\x00")) == 0 {
		return f.skipHole()
	}
	return err
}

// bound has the file read up to the size that it has now.
func (f *file) bound() error {
	info, err := f.Stat()
	if err == nil {
		f.stop = max(info.Size(), 1)
	}
	return err
}

// skipHole continues after the hole that the file may have here. A hole takes no room on the disk, and can be as large as
// the file system allows.
func (f *file) skipHole() error {
	info, err := f.Stat()
	if err != nil {
		return err
	}
	at, err := f.Seek(0, io.SeekCurrent)
	if err != nil {
		return err
	}
	// Without an error this seeks. A file system may not have the call.
	if _, err := unix.Seek(int(f.Fd()), at, unix.SEEK_DATA); errors.Is(err, unix.ENXIO) {
		// All up to the end is a hole. What was written since the file's size was read is after it.
		_, err = f.Seek(max(at, info.Size()), io.SeekStart)
		return err
	}
	return nil
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
	for at, without := end, 0; at > first; {
		if without > maxForeign {
			// No runtime writes such lines. The file may be one large hole.
			first = at
			break
		}
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
		if without += len(part); bytes.IndexByte(part, '\n') >= 0 {
			without = 0
		}
	}
	if first > 0 {
		// The position is within a line.
		f.skipping = true
	}
	_, err = f.Seek(first, io.SeekStart)
	return err
}
