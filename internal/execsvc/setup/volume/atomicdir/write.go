package atomicdir

import (
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/podstream/podstream/internal/execsvc/setup/volume/payload"
	"github.com/podstream/podstream/internal/failpoint"
)

const (
	// reserved is the prefix of the package's names.
	reserved = ".."
	// dataLink is the link to the content.
	dataLink = "..data"
	// draftLink is the name of a link before it is renamed into place.
	draftLink = "..data_tmp"
	// stamp is the time layout of a content's name, which a random number follows.
	stamp = "..2006_01_02_15_04_05."
)

// Write replaces the content of the directory, which must exist, by these files by path. With an fsGroup all files
// belong to that group, which may read them. Modes and owners are exact, whatever the umask and the directory's own.
//
// changed reports whether the content was replaced, also on error: the next Write then does the rest. Write compares
// existing content, and does not rewrite equal content.
func Write(dir string, files map[string]payload.File, fsGroup *int64) (changed bool, err error) {
	return write(dir, files, fsGroup, func() {})
}

// write is Write; it calls stepped after each step on the disk, for crash tests.
func write(dir string, files map[string]payload.File, fsGroup *int64, stepped func()) (changed bool, err error) {
	tree, err := treeOf(files, fsGroup)
	if err != nil {
		return false, err
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		return false, fmt.Errorf("open the directory: %w", err)
	}
	defer func() { _ = root.Close() }()
	w := &writer{root: root, stepped: stepped}

	current := w.current()
	// This comes before the writing, as a tmpfs may be too small for both. The sweep at the end reports errors.
	_ = w.sweep(current)
	changed = current == "" || !same(root, current, tree)
	if changed {
		if current, err = w.replace(tree); err != nil {
			return false, err
		}
	}
	if err := w.show(tree.names()); err != nil {
		return changed, err
	}
	return changed, w.sweep(current)
}

// writer writes in one directory.
type writer struct {
	root    *os.Root
	stepped func()
}

// current returns the name of the content, or "" if ..data leads to no directory in here.
func (w *writer) current() string {
	name, err := w.root.Readlink(dataLink)
	if err != nil {
		return ""
	}
	if info, err := w.root.Lstat(name); err != nil || !info.IsDir() {
		return ""
	}
	return name
}

// sweep removes the package's entries except ..data and the content: former contents, and leftovers of a crash. A
// failure doesn't keep the others from being removed.
func (w *writer) sweep(content string) error {
	entries, err := w.list()
	if err != nil {
		return err
	}
	var errs []error
	for _, e := range entries {
		name := e.Name()
		if !strings.HasPrefix(name, reserved) || name == content || (name == dataLink && e.Type() == fs.ModeSymlink) {
			continue
		}
		if err := w.remove(w.root, name); err != nil {
			errs = append(errs, fmt.Errorf("remove a former content: %w", err))
		}
	}
	return errors.Join(errs...)
}

// replace writes the tree as a new content and atomically changes ..data to it.
func (w *writer) replace(tree *node) (content string, err error) {
	content = time.Now().UTC().Format(stamp) + strconv.FormatUint(uint64(rand.Uint32()), 10)
	if err := w.create(w.root, content, tree); err != nil {
		return "", fmt.Errorf("write the content: %w", err)
	}
	failpoint.Reached(failpoint.ContentWritten)
	if err := w.link(content, dataLink); err != nil {
		return "", fmt.Errorf("put the content in place: %w", err)
	}
	return content, nil
}

// show creates a link into the content for each of the names, and removes the links of former names. A directory of
// such a name is the mount point of another volume: it stays, as with the kubelet.
func (w *writer) show(names map[string]bool) error {
	entries, err := w.list()
	if err != nil {
		return err
	}
	shown := map[string]bool{}
	for _, e := range entries {
		name := e.Name()
		if strings.HasPrefix(name, reserved) {
			continue
		}
		target, _ := w.root.Readlink(name)
		ours, wanted := target == shownAs(name), names[name]
		shown[name] = ours || e.IsDir()
		if ours && !wanted {
			if err := w.remove(w.root, name); err != nil {
				return fmt.Errorf("remove a former name: %w", err)
			}
		}
	}
	for name := range names {
		if shown[name] {
			continue
		}
		if err := w.link(shownAs(name), name); err != nil {
			return fmt.Errorf("show %q: %w", name, err)
		}
	}
	return nil
}

// shownAs returns the target of the link of that name.
func shownAs(name string) string { return dataLink + "/" + name }

// link replaces the entry, unless it is a directory, by a link.
func (w *writer) link(target, name string) error {
	if err := w.root.Symlink(target, draftLink); err != nil {
		return err
	}
	w.stepped()
	if err := w.root.Rename(draftLink, name); err != nil {
		return err
	}
	w.stepped()
	return nil
}

// remove removes the entry and its children. It enters a directory only after the kernel reported that it isn't
// empty: a mount point is reported as busy.
func (w *writer) remove(parent *os.Root, name string) error {
	err := parent.Remove(name)
	if errors.Is(err, unix.ENOTEMPTY) {
		if err := w.empty(parent, name); err != nil {
			return err
		}
		err = parent.Remove(name)
	}
	w.stepped()
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

func (w *writer) empty(parent *os.Root, name string) error {
	dir, err := parent.OpenRoot(name)
	if err != nil {
		return err
	}
	defer func() { _ = dir.Close() }()
	entries, err := fs.ReadDir(dir.FS(), ".")
	if err != nil {
		return err
	}
	for _, e := range entries {
		if err := w.remove(dir, e.Name()); err != nil {
			return err
		}
	}
	return nil
}

func (w *writer) list() ([]fs.DirEntry, error) {
	entries, err := fs.ReadDir(w.root.FS(), ".")
	if err != nil {
		return nil, fmt.Errorf("list the directory: %w", err)
	}
	return entries, nil
}

// Written reports whether the directory has a content.
func Written(dir string) bool {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return false
	}
	defer func() { _ = root.Close() }()
	return (&writer{root: root}).current() != ""
}

// Finish completes an interrupted Write, and reports whether the directory has a content, which is that of the last
// Write. A missing directory has none.
func Finish(dir string) (written bool, err error) {
	root, err := os.OpenRoot(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("open the directory: %w", err)
	}
	defer func() { _ = root.Close() }()
	w := &writer{root: root, stepped: func() {}}
	content := w.current()
	if content == "" {
		return false, nil
	}
	if err := w.sweep(content); err != nil {
		return false, err
	}
	entries, err := fs.ReadDir(root.FS(), content)
	if err != nil {
		return false, fmt.Errorf("list the content: %w", err)
	}
	names := map[string]bool{}
	for _, e := range entries {
		names[e.Name()] = true
	}
	return true, w.show(names)
}
