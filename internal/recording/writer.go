package recording

import (
	"bufio"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"google.golang.org/protobuf/proto"

	podconfigv1 "github.com/podstream/podstream/proto/podconfig/v1"
)

// WriterConfig configures a Writer.
type WriterConfig struct {
	// Out receives the recording.
	Out io.Writer
	// Header is the first line.
	Header Header
	// Compress compresses the recording with gzip.
	Compress bool
}

// FileConfig configures Create.
type FileConfig struct {
	// Path is the file. It is compressed if the name ends in ".gz".
	Path string
	// Overwrite replaces an existing regular file. Without it, Create fails with fs.ErrExist.
	Overwrite bool
	// Header is the first line.
	Header Header
}

// Stats describes the written recording.
type Stats struct {
	Messages, Revisions int
	// Bytes is the size of the recording, after compression if any. It is exact after Close.
	Bytes int64
}

// Writer writes a recording, message by message. It isn't safe for concurrent use.
type Writer struct {
	lines   *bufio.Writer
	zip     *gzip.Writer // nil: not compressed
	counter *counter
	file    *os.File // nil: NewWriter didn't open it

	stats Stats
	last  *podconfigv1.Cursor
}

// Check returns the error that Create would return.
func (cfg FileConfig) Check() error {
	info, err := os.Lstat(cfg.Path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil
	case err != nil:
		return err
	case !cfg.Overwrite:
		return &fs.PathError{Op: "create", Path: cfg.Path, Err: fs.ErrExist}
	case !info.Mode().IsRegular():
		return fmt.Errorf("%s isn't a regular file, and isn't overwritten", cfg.Path)
	}
	return nil
}

// Create creates a file that only its owner may read, because the pods in it may contain secrets.
func Create(cfg FileConfig) (*Writer, error) {
	file, err := cfg.create()
	if err != nil {
		return nil, err
	}
	w, err := NewWriter(WriterConfig{Out: file, Header: cfg.Header, Compress: strings.HasSuffix(cfg.Path, ".gz")})
	if err != nil {
		return nil, errors.Join(err, file.Close())
	}
	w.file = file
	return w, nil
}

func (cfg FileConfig) create() (*os.File, error) {
	if err := cfg.Check(); err != nil {
		return nil, err
	}
	if !cfg.Overwrite {
		return os.OpenFile(cfg.Path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	}
	// A new file replaces the old one, because other users may have read access to the old file, or have it open. A
	// rename doesn't follow links.
	file, err := os.CreateTemp(filepath.Dir(cfg.Path), ".recording-*")
	if err != nil {
		return nil, err
	}
	if err := os.Rename(file.Name(), cfg.Path); err != nil {
		return nil, errors.Join(err, os.Remove(file.Name()), file.Close())
	}
	return file, nil
}

// NewWriter writes the header.
func NewWriter(cfg WriterConfig) (*Writer, error) {
	w := &Writer{counter: &counter{out: cfg.Out}}
	if cfg.Compress {
		w.zip = gzip.NewWriter(w.counter)
		w.lines = bufio.NewWriter(w.zip)
	} else {
		w.lines = bufio.NewWriter(w.counter)
	}
	line, err := encodeHeader(cfg.Header)
	if err != nil {
		return nil, fmt.Errorf("encode the recording's header: %w", err)
	}
	if err := w.write(line, true); err != nil {
		return nil, err
	}
	return w, nil
}

// Write adds a message with its time since the start. A message that ends a revision is flushed, so that the file has
// the revision even if this process is killed. A message that can't be encoded is an error and leaves the file
// unchanged.
func (w *Writer) Write(at time.Duration, m *podconfigv1.WatchPodUpdatesResponse) error {
	line, err := encodeEntry(Entry{At: at, Message: m})
	if err != nil {
		return fmt.Errorf("encode message %d of the recording: %w", w.stats.Messages+1, err)
	}
	if err := w.write(line, endsRevision(m)); err != nil {
		return err
	}
	w.stats.Messages++
	if c := m.GetCursor(); c != nil && !proto.Equal(c, w.last) {
		w.stats.Revisions++
		w.last = c
	}
	return nil
}

// Stats returns the state so far.
func (w *Writer) Stats() Stats {
	s := w.stats
	s.Bytes = w.counter.n
	return s
}

// Close writes the buffered rest, and closes the file if Create made it.
func (w *Writer) Close() error {
	err := w.lines.Flush()
	if w.zip != nil {
		err = errors.Join(err, w.zip.Close())
	}
	if err != nil {
		err = fmt.Errorf("write the recording: %w", err)
	}
	if w.file != nil {
		err = errors.Join(err, w.file.Close())
	}
	return err
}

func (w *Writer) write(line []byte, flush bool) error {
	_, err := w.lines.Write(line)
	if err == nil && flush {
		err = w.lines.Flush()
		if err == nil && w.zip != nil {
			err = w.zip.Flush()
		}
	}
	if err != nil {
		return fmt.Errorf("write the recording: %w", err)
	}
	return nil
}

// endsRevision reports whether no more messages of the same revision follow.
func endsRevision(m *podconfigv1.WatchPodUpdatesResponse) bool {
	return m.GetCursor() != nil || !m.GetContinued()
}

// counter counts the bytes that it passes on.
type counter struct {
	out io.Writer
	n   int64
}

func (c *counter) Write(p []byte) (int, error) {
	n, err := c.out.Write(p)
	c.n += int64(n)
	return n, err
}
