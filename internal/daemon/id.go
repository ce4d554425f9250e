package daemon

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"strings"

	"github.com/google/renameio/v2"
	"github.com/google/uuid"

	"github.com/podstream/podstream/internal/openfile"
)

// ErrDamagedID is returned by ID if the file exists but has no ID: with a new ID, objects marked with the old one
// would no longer be recognized.
var ErrDamagedID = errors.New("the file doesn't hold an id")

// ID returns the random ID in the file of that name in rootDir. It is created once, and doesn't change with restarts
// and the node's name. If the file is removed, a new ID is created.
func ID(rootDir, name string) (string, error) {
	id, err := KnownID(rootDir, name)
	if err != nil || id != "" {
		return id, err
	}
	path := filepath.Join(rootDir, name)
	id = uuid.NewString()
	if err := renameio.WriteFile(path, []byte(id+"\n"), 0o600); err != nil {
		return "", fmt.Errorf("write the id: %w", err)
	}
	return id, nil
}

// maxID bounds the file of an ID, in bytes.
const maxID = 4 << 10

// KnownID returns the ID that ID has created. Empty: it hasn't.
func KnownID(rootDir, name string) (string, error) {
	path := filepath.Join(rootDir, name)
	// Any other kind of file is an error at once: a named pipe would keep its reader waiting, and a device may have no end.
	data, err := openfile.Read(context.Background(), path, maxID)
	if errors.Is(err, fs.ErrNotExist) {
		return "", nil
	}
	if err != nil {
		return "", fmt.Errorf("read the id: %w", err)
	}
	id, err := uuid.Parse(strings.TrimSpace(string(data)))
	if err != nil {
		return "", fmt.Errorf("%s: %w", path, ErrDamagedID)
	}
	return id.String(), nil
}
