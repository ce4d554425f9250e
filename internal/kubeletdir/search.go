package kubeletdir

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path/filepath"
	"slices"

	"golang.org/x/sys/unix"

	"github.com/podstream/podstream/internal/openfile"
)

const (
	// maxNames bounds the names that are read of one directory, and maxSearched those of all: a driver's container can make more of them.
	maxNames, maxSearched = 16 << 10, 256 << 10
	// maxDepth bounds the levels of directories below a plugin's. The kubelet's plugins have five at the most.
	maxDepth = 8
)

// errNoDirectory is the error of a path that is neither a directory nor missing.
var errNoDirectory = errors.New("it isn't a directory")

// search looks for volumes below base, which is trusted. It opens nothing on other mounts: their servers may not answer.
type search struct {
	base string
	// room is the number of names that may still be read.
	room int
}

func newSearch(base string) *search { return &search{base, maxSearched} }

// list returns the names in a directory. There are none if it doesn't exist, or isn't a directory. A link, a mount, and too many names
// are errors: what is there can't be told.
func (s *search) list(directory string) ([]string, error) {
	found, err := s.read(directory)
	switch {
	case errors.Is(err, errNoDirectory):
		return nil, nil
	case errors.Is(err, openfile.ErrOutside):
		return nil, unknown(err)
	}
	return found, err
}

// mountName is the directory in that of a CSI driver's volume where it is mounted.
const mountName = "mount"

// isUnused reports whether the path of a pod's volume is an empty directory, but for an empty one where a CSI driver mounts, or missing.
func (s *search) isUnused(at string) (bool, error) {
	empty, err := s.isEmpty(at)
	if empty || err != nil {
		return empty, err
	}
	found, err := s.read(at)
	if err != nil || !slices.Equal(found, []string{mountName}) {
		return false, notDirectory(err)
	}
	return s.isEmpty(filepath.Join(at, mountName))
}

// isEmpty reports whether the path is an empty directory, or missing. A mount point isn't, whatever is mounted.
func (s *search) isEmpty(at string) (bool, error) {
	found, err := s.read(at)
	return err == nil && len(found) == 0, notDirectory(err)
}

// notDirectory returns the error, unless it says that there is something that isn't a directory, or a mount.
func notDirectory(err error) error {
	if errors.Is(err, errNoDirectory) || errors.Is(err, openfile.ErrOutside) {
		return nil
	}
	return err
}

// isSocket reports whether a path that isn't a directory, nor on another mount, is a socket.
func (s *search) isSocket(at string) bool {
	dir, err := openfile.OpenDirBeneath(s.base, filepath.Dir(at))
	if err != nil {
		return false
	}
	defer dir.Close()
	var stat unix.Stat_t
	err = unix.Fstatat(int(dir.Fd()), filepath.Base(at), &stat, unix.AT_SYMLINK_NOFOLLOW)
	return err == nil && stat.Mode&unix.S_IFMT == unix.S_IFSOCK
}

// read returns the names in a directory; none if it is missing. The error is errNoDirectory, openfile.ErrOutside, or says what can't be
// told.
func (s *search) read(directory string) ([]string, error) {
	f, err := openfile.OpenDirBeneath(s.base, directory)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, nil
	case errors.Is(err, unix.ENOTDIR):
		return nil, errNoDirectory
	case errors.Is(err, openfile.ErrOutside):
		return nil, err
	case err != nil:
		return nil, unknown(err)
	}
	defer f.Close()
	most := min(maxNames, s.room)
	found, err := f.Readdirnames(most + 1)
	switch {
	case err != nil && !errors.Is(err, io.EOF):
		return nil, fmt.Errorf("--kubelet-dir: look for volumes that a kubelet left: %w", err)
	case len(found) > maxNames:
		return nil, fmt.Errorf("--kubelet-dir: %s has more than %d files; remove those that are no volumes, then start podexecd again", f.Name(), maxNames)
	case len(found) > most:
		return nil, fmt.Errorf("--kubelet-dir: %s has more than %d files in its pods' volumes and plugins; remove those that are no volumes, "+
			"then start podexecd again", s.base, maxSearched)
	}
	s.room -= len(found)
	return found, nil
}

func unknown(err error) error {
	return fmt.Errorf("--kubelet-dir: it can't be told whether a kubelet left volumes: %w", err)
}
