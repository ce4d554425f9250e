package daemon

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/google/renameio/v2"
	"github.com/google/uuid"
)

// ErrDamagedID is what ID fails with if there is a file, and no id in it: what bears the old id would be a stranger's with a new one.
var ErrDamagedID = errors.New("the file doesn't hold an id")

// ID is the random id in the file of that name in rootDir. It is made once, so that it outlives restarts and changes of the node's
// name. Whoever removes the file gets a new one.
func ID(rootDir, name string) (string, error) {
	path := filepath.Join(rootDir, name)
	data, err := os.ReadFile(path)
	if err == nil {
		id, err := uuid.Parse(strings.TrimSpace(string(data)))
		if err != nil {
			return "", fmt.Errorf("%s: %w", path, ErrDamagedID)
		}
		return id.String(), nil
	}
	if !errors.Is(err, fs.ErrNotExist) {
		return "", fmt.Errorf("read the id: %w", err)
	}
	id := uuid.NewString()
	if err := renameio.WriteFile(path, []byte(id+"\n"), 0o600); err != nil {
		return "", fmt.Errorf("write the id: %w", err)
	}
	return id, nil
}
