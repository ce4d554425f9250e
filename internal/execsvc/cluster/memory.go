package cluster

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/google/renameio/v2"
)

// memoryVersion is of the files' format. A file of another one isn't read.
const memoryVersion = 1

// memory is a file with all objects of a table as they were read last. One goroutine at a time writes it.
type memory[T any] struct {
	path   string
	server func() string
	// written are the objects that this life wrote last, encoded; nil: it wrote none.
	written []byte
	// failing tells whether the last try to write failed.
	failing bool
}

// document is what stands in the file.
type document struct {
	Version int
	Server  string
	// Time is when it was written.
	Time    time.Time
	Objects json.RawMessage
}

func newMemory[T any](path string, cfg Config) *memory[T] {
	return &memory[T]{path: path, server: cfg.Server}
}

// read returns the objects that are in the file, and from when they are. The error is fs.ErrNotExist if there is no file.
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
	if server := m.server(); d.Server != server { // The node has moved to another cluster, maybe.
		return nil, at, fmt.Errorf("it is of the API server %s, and not of %s", d.Server, server)
	}
	if err := json.Unmarshal(d.Objects, &objects); err != nil {
		return nil, at, fmt.Errorf("read its objects as JSON: %w", err)
	}
	return objects, d.Time, nil
}

// write puts the objects into the file in place of what is there, whole or not at all. Those that it wrote last aren't written again.
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
