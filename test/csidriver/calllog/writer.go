package calllog

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"sync"
)

// Writer appends to a log.
type Writer struct {
	mu     sync.Mutex
	file   *os.File
	closed bool
}

// Open opens a log, and makes it if there is none. If a crash of the machine has left an incomplete line, the next one begins after it.
func Open(path string) (*Writer, error) {
	file, err := os.OpenFile(path, os.O_APPEND|os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, err
	}
	w := &Writer{file: file}
	if err := w.completeLine(); err != nil {
		file.Close()
		return nil, fmt.Errorf("read the end of %s: %w", path, err)
	}
	return w, nil
}

func (w *Writer) completeLine() error {
	size, err := w.file.Seek(0, io.SeekEnd)
	if err != nil || size == 0 {
		return err
	}
	var last [1]byte
	if _, err := w.file.ReadAt(last[:], size-1); err != nil {
		return err
	}
	if last[0] != '\n' {
		_, err = w.file.WriteString("\n")
	}
	return err
}

// Write appends a record in one write, and syncs it. After Close it returns an error, so that a call doesn't act.
func (w *Writer) Write(r *Record) error {
	line, err := json.Marshal(r)
	if err != nil {
		return err
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.closed {
		return os.ErrClosed
	}
	if _, err := w.file.Write(append(line, '\n')); err != nil {
		return err
	}
	return w.file.Sync()
}

// Close closes the log.
func (w *Writer) Close() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.closed {
		return nil
	}
	w.closed = true
	return w.file.Close()
}
