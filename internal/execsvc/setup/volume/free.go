package volume

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path/filepath"

	"k8s.io/apimachinery/pkg/types"

	"github.com/podstream/podstream/internal/openfile"
)

// freeDisk removes the emptyDirs of a pod of which other volumes can't be released. Otherwise they would keep the disk full while a
// driver hangs; and package storage can't record that it unmounts a volume while the disk is full. It follows no link, and leaves
// what is mounted. The containers have ended.
func (m *Manager) freeDisk(ctx context.Context, uid types.UID) error {
	if ctx.Err() != nil {
		return nil //nolint:nilerr // podexecd ends, and it is done after the restart.
	}
	var errs []error
	for _, root := range m.podDirs.Roots() {
		podsDir, exists, err := m.dirIn(root, uid)
		if err == nil && exists {
			err = removeContent(podsDir, filepath.Join(string(uid), volumesDir, escaped(emptyDir{}.Name())))
		}
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}

// removeContent removes the content of a directory below podsDir. A missing one is no error.
func removeContent(podsDir, name string) error {
	dir, err := openHere(podsDir, name)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	defer dir.Close()
	mount, err := openfile.Mount(int(dir.Fd()))
	if err != nil {
		return err
	}
	names, err := dir.Readdirnames(maxEntries)
	if err != nil && !errors.Is(err, io.EOF) {
		return fmt.Errorf("list %s: %w", dir.Name(), err)
	}
	var errs []error
	for _, child := range names {
		r := &removal{mount: mount}
		if err := r.remove(int(dir.Fd()), child, filepath.Join(podsDir, name, child), 0); err != nil && !errors.Is(err, ErrMounted) {
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}
