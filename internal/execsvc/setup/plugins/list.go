package plugins

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/podstream/podstream/internal/openfile"
)

// Bounds of the registry. Upstream has none.
const (
	maxDepth   = 4
	maxDirs    = 128
	maxSockets = 256
	// maxFiles is the number of names that one listing reads.
	maxFiles = 20_000
)

// listing is what the registry has: paths relative to it.
type listing struct {
	sockets, dirs []string
	// incomplete is the reason why the listing lacks files, or nil.
	incomplete error
}

// list lists the registry. watch is called for each directory before it is read. The error is that of the registry itself; one of a
// directory in it only makes the listing incomplete.
func list(root string, watch func(dir string)) (listing, error) {
	l, names := listing{dirs: []string{"."}}, 0
	for i := 0; i < len(l.dirs); i++ { //nolint:intrange // The loop adds directories.
		rel := l.dirs[i]
		watch(filepath.Join(root, rel))
		err := l.read(root, rel, &names)
		switch {
		case err == nil:
		case i == 0 && names == 0:
			return l, err
		case i > 0 && errors.Is(err, fs.ErrNotExist): // It was removed meanwhile.
		default:
			l.incomplete = err
		}
	}
	return l, nil
}

// read adds the files of one directory.
func (l *listing) read(root, rel string, names *int) error {
	dir, err := open(root, rel)
	if err != nil {
		return err
	}
	defer dir.Close()
	for {
		entries, err := dir.ReadDir(256)
		for _, entry := range entries {
			if *names++; *names > maxFiles {
				return fmt.Errorf("%s has more than %d files", root, maxFiles)
			}
			l.add(rel, entry)
		}
		switch {
		case errors.Is(err, io.EOF):
			return nil
		case err != nil:
			return err
		}
	}
}

// open opens a directory of the registry. The registry itself may be a link, as the node's administrator makes it.
func open(root, rel string) (*os.File, error) {
	if rel == "." {
		return os.OpenFile(root, os.O_RDONLY|unix.O_DIRECTORY, 0)
	}
	return openfile.OpenDirBeneath(root, rel)
}

// add adds one file. Names with a leading dot are ignored, as the kubelet ignores them.
func (l *listing) add(rel string, entry fs.DirEntry) {
	path := filepath.Join(rel, entry.Name())
	switch {
	case strings.HasPrefix(entry.Name(), "."):
	case entry.Type() == fs.ModeSocket:
		l.sockets = append(l.sockets, path)
	case entry.IsDir() && strings.Count(path, "/") >= maxDepth:
		l.incomplete = fmt.Errorf("directories more than %d deep aren't read", maxDepth)
	case entry.IsDir() && len(l.dirs) >= maxDirs:
		l.incomplete = fmt.Errorf("more than %d directories aren't read", maxDirs)
	case entry.IsDir():
		l.dirs = append(l.dirs, path)
	}
}
