package apiobjects

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/google/renameio/v2"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podstream/podstream/internal/openfile"
)

// memoryVersion is the version of the files' format. A file of another version isn't read.
const memoryVersion = 1

// maxFile is the largest size of a file in bytes.
const maxFile = 64 << 20

// memory is a file with all objects of a table as last read. One goroutine at a time writes it.
type memory[T any] struct {
	path   string
	server func() string
	// written are the objects that were written last since the start, encoded, and writtenOf their cluster; nil: none.
	written   []byte
	writtenOf types.UID
	// failing reports whether the last write failed.
	failing bool
}

// document is the content of the file.
type document struct {
	Version int
	// Cluster is the UID of the objects' cluster; empty: unknown. Server is the API server's address.
	Cluster types.UID
	Server  string
	// Time is the time of writing.
	Time    time.Time
	Objects json.RawMessage
}

func newMemory[T any](path string, cfg Config) *memory[T] {
	return &memory[T]{path: path, server: cfg.Server}
}

// read returns the objects in the file, and the document without them. The error is fs.ErrNotExist if there is no file.
func (m *memory[T]) read(now answer) (objects []T, d document, err error) {
	data, err := openfile.Read(context.Background(), m.path, maxFile)
	if err != nil {
		return nil, d, err
	}
	if err := json.Unmarshal(data, &d); err != nil {
		return nil, d, fmt.Errorf("read as JSON: %w", err)
	}
	if d.Version != memoryVersion {
		return nil, d, fmt.Errorf("it is of version %d, and not %d", d.Version, memoryVersion)
	}
	if err := m.belongs(d, now); err != nil {
		return nil, d, err
	}
	if err := json.Unmarshal(d.Objects, &objects); err != nil {
		return nil, d, fmt.Errorf("read its objects as JSON: %w", err)
	}
	d.Objects = nil
	return objects, d, nil
}

// belongs returns an error if a document isn't of this node's cluster: the node may have moved to another one. A document
// with a UID is used while no API server answers, whatever its address: that may have changed. If the server doesn't show
// its UID, the address decides.
func (m *memory[T]) belongs(d document, now answer) error {
	switch server := m.server(); {
	case d.Cluster != "" && now.cluster != "" && d.Cluster != now.cluster:
		return fmt.Errorf("it is of the cluster %s, and not of %s", d.Cluster, now.cluster)
	case d.Cluster != "" && (now.cluster != "" || !now.given):
		return nil
	case d.Server != server:
		return fmt.Errorf("it is of the API server %s, and not of %s", d.Server, server)
	}
	return nil
}

// write replaces the file atomically. If the objects and the cluster equal those written last, it does nothing.
func (m *memory[T]) write(objects []T, cluster types.UID) error {
	data, err := json.Marshal(objects)
	if err != nil {
		return err
	}
	if m.written != nil && bytes.Equal(data, m.written) && cluster == m.writtenOf {
		return nil
	}
	file, err := json.Marshal(document{Version: memoryVersion, Cluster: cluster, Server: m.server(), Time: time.Now(), Objects: data})
	if err != nil {
		return err
	}
	if len(file) >= maxFile {
		return fmt.Errorf("they have %d bytes, more than can be read again", len(file))
	}
	if err := os.MkdirAll(filepath.Dir(m.path), 0o700); err != nil {
		return err
	}
	if err := renameio.WriteFile(m.path, append(file, '\n'), 0o600); err != nil {
		return err
	}
	m.written, m.writtenOf = data, cluster
	return nil
}
