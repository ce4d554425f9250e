package apiobjects

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/google/renameio/v2"
)

// memoryVersion is the version of the files' format. A file of another version isn't read.
const memoryVersion = 1

// memory is a file with all objects of a table as last read. One goroutine at a time writes it.
type memory[T any] struct {
	path   string
	server func() string
	// written are the objects that were written last since the start, encoded; nil: none.
	written []byte
	// failing reports whether the last write failed.
	failing bool
}

// document is the content of the file.
type document struct {
	Version int
	Server  string
	// Time is the time of writing.
	Time    time.Time
	Objects json.RawMessage
}

func newMemory[T any](path string, cfg Config) *memory[T] {
	return &memory[T]{path: path, server: cfg.Server}
}

// read returns the objects in the file, and when they were written. The error is fs.ErrNotExist if there is no file.
func (m *memory[T]) read() (objects []T, at time.Time, err error) {
	data, err := os.ReadFile(m.path)
	if err != nil {
		return nil, at, err
	}
	var d document
	if err := json.Unmarshal(data, &d); err != nil {
		return nil, at, fmt.Errorf("read as JSON: %w", err)
	}
	if d.Version != memoryVersion {
		return nil, at, fmt.Errorf("it is of version %d, and not %d", d.Version, memoryVersion)
	}
	if server := m.server(); d.Server != server { // The node may have moved to another cluster.
		return nil, at, fmt.Errorf("it is of the API server %s, and not of %s", d.Server, server)
	}
	if err := json.Unmarshal(d.Objects, &objects); err != nil {
		return nil, at, fmt.Errorf("read its objects as JSON: %w", err)
	}
	return objects, d.Time, nil
}

// write replaces the file atomically. If the objects equal those written last, it does nothing.
func (m *memory[T]) write(objects []T) error {
	data, err := json.Marshal(objects)
	if err != nil {
		return err
	}
	if m.written != nil && bytes.Equal(data, m.written) {
		return nil
	}
	file, err := json.Marshal(document{Version: memoryVersion, Server: m.server(), Time: time.Now(), Objects: data})
	if err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(m.path), 0o700); err != nil {
		return err
	}
	if err := renameio.WriteFile(m.path, append(file, '\n'), 0o600); err != nil {
		return err
	}
	m.written = data
	return nil
}
