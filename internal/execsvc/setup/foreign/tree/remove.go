package tree

import (
	"crypto/rand"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"
)

// Remove removes the directory of a claim. The caller has surveyed it.
type Remove struct {
	Root  string `json:"root"`
	Claim string `json:"claim"`
	// As is the name that the directory gets first. No other job uses it.
	As string `json:"as"`
}

// Do renames the directory, after which it isn't a claim's any more. A Sweep removes it.
func (r Remove) Do() error {
	p, err := openPlace(r.Root, r.Claim)
	if err != nil {
		return err
	}
	defer func() { _ = p.close() }()
	dir, err := p.open() // It isn't a mount point, nor a link.
	if err != nil {
		return err
	}
	defer dir.Close()
	if err := checkMounts(dir); err != nil {
		return err
	}
	bin, err := makeDir(p.root, incomplete, ownMode)
	if err != nil {
		return err
	}
	defer bin.Close()
	if err := unix.Renameat2(int(p.parent.Fd()), p.name, int(bin.Fd()), r.As, unix.RENAME_NOREPLACE); err != nil {
		return fmt.Errorf("rename %s to remove it: %w", p.path, err)
	}
	if err := errors.Join(bin.Sync(), p.parent.Sync()); err != nil {
		return fmt.Errorf("sync the removal of %s: %w", p.path, err)
	}
	return nil
}

// Sweep removes what earlier processes have left incomplete.
type Sweep struct {
	Root string `json:"root"`
	// Keep is the prefix of the names that stay: those of this start of podexecd.
	Keep string `json:"keep,omitempty"`
	// Only is the one name that is removed, with the parts of it that were moved up. Empty: all names but those of Keep.
	Only string `json:"only,omitempty"`

	// sync replaces syncfs in tests.
	sync func(dir *os.File) error
}

// Do removes all of it that can be removed. Before that it syncs the file system: a helper that was killed may have renamed
// a volume, and until that is on disk, a crash of the machine may bring back what is removed here as the volume.
func (s Sweep) Do() error {
	root, err := openRoot(s.Root)
	if errors.Is(err, ErrMissing) {
		return nil
	}
	if err != nil {
		return err
	}
	defer root.Close()
	bin, err := openDir(root, incomplete)
	if errors.Is(err, ErrMissing) {
		return nil
	}
	if err != nil {
		return err
	}
	defer bin.Close()
	if s.sync == nil {
		s.sync = syncFileSystem
	}
	if err := s.sync(bin); err != nil {
		return fmt.Errorf("sync the file system of %s before the removal of what is incomplete: %w", s.Root, err)
	}
	var errs []error
	err = eachName(bin, func(name string) error {
		if s.takes(name) {
			errs = append(errs, removeAll(bin, name))
		}
		return nil
	})
	return errors.Join(append(errs, err)...)
}

// syncFileSystem syncs the file system of a directory. Before Linux 5.8 syncfs doesn't report that it failed; fsync reports that of the
// file system's own data, such as renames.
func syncFileSystem(dir *os.File) error {
	return errors.Join(unix.Syncfs(int(dir.Fd())), dir.Sync())
}

func (s Sweep) takes(name string) bool {
	if strings.HasSuffix(name, unsynced) {
		return false
	}
	if s.Only != "" {
		return name == s.Only || strings.HasPrefix(name, s.Only+".")
	}
	return s.Keep == "" || !strings.HasPrefix(name, s.Keep)
}

// removeAll removes a name in an open directory, and what is below it. It stops at the first mount.
func removeAll(bin *os.File, name string) error {
	r := remover{bin: bin, prefix: name, names: []string{name}}
	r.prefix, _, _ = strings.Cut(name, ".")
	for len(r.names) > 0 {
		next := r.names[len(r.names)-1]
		r.names = r.names[:len(r.names)-1]
		if err := r.remove(bin, next, 0); err != nil {
			return err
		}
	}
	return nil
}

// remover removes directories.
type remover struct {
	bin *os.File
	// prefix is that of the names of directories that were so deep that they were moved up. names are to be removed.
	prefix string
	names  []string
}

func (r *remover) remove(parent *os.File, name string, depth int) error {
	path := filepath.Join(parent.Name(), name)
	err := unix.Unlinkat(int(parent.Fd()), name, 0)
	switch {
	case err == nil, errors.Is(err, unix.ENOENT):
		return nil
	case !errors.Is(err, unix.EISDIR) && !errors.Is(err, unix.EPERM):
		return &os.PathError{Op: "unlink", Path: path, Err: err}
	}
	// Some file systems have EPERM for a directory, and all have it for what chattr protects.
	switch st, statErr := statAt(parent, name); {
	case isMissing(statErr):
		return nil
	case statErr != nil:
		return statErr
	case !isDir(st):
		return unremovable("unlink", path, err)
	}
	if depth == maxDepth {
		as := r.prefix + "." + rand.Text()
		if err := unix.Renameat(int(parent.Fd()), name, int(r.bin.Fd()), as); err != nil {
			return fmt.Errorf("move %s, which is deep, to remove it: %w", path, err)
		}
		r.names = append(r.names, as)
		return nil
	}
	if err := r.empty(parent, name, depth); err != nil {
		return err
	}
	if err := unix.Unlinkat(int(parent.Fd()), name, unix.AT_REMOVEDIR); err != nil && !errors.Is(err, unix.ENOENT) {
		return unremovable("rmdir", path, err)
	}
	return nil
}

// unremovable returns the error of a file that can't be removed, with what can be done.
func unremovable(op, path string, err error) error {
	err = &os.PathError{Op: op, Path: path, Err: err}
	if errors.Is(err, unix.EPERM) {
		return fmt.Errorf("%w; if lsattr -d shows that it or its directory is immutable or append-only, run chattr -i -a on that", err)
	}
	return err
}

// empty removes what is in a directory.
func (r *remover) empty(parent *os.File, name string, depth int) error {
	dir, err := openDir(parent, name)
	if errors.Is(err, ErrMissing) {
		return nil
	}
	if err != nil {
		return err
	}
	defer dir.Close()
	// A file system may leave out names while others are removed.
	for again := true; again; {
		again = false
		if _, err := dir.Seek(0, 0); err != nil {
			return err
		}
		err := eachName(dir, func(name string) error {
			again = true
			return r.remove(dir, name, depth+1)
		})
		if err != nil {
			return err
		}
	}
	return nil
}
