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

	"github.com/podstream/podstream/internal/execsvc/volume/payload"
	"github.com/podstream/podstream/internal/failpoint"
)

const (
	// reserved begins the names that are the package's.
	reserved = ".."
	// dataLink leads to the content.
	dataLink = "..data"
	// draftLink is a link before it is renamed into place.
	draftLink = "..data_tmp"
	// stamp is the layout of a content's name, before a random number.
	stamp = "..2006_01_02_15_04_05."
)

// Write gives the directory, which must exist, those files by path, and no others. With an fsGroup they belong to that group, which may
// read them all. Modes and owners are exact, whatever the umask and the directory's own.
//
// changed tells whether the content was replaced, also with an error: what remains to be done after that is the next Write's. What is
// there already is compared and not written again.
func Write(dir string, files map[string]payload.File, fsGroup *int64) (changed bool, err error) {
	return write(dir, files, fsGroup, func() {})
}

// write is Write; it calls stepped after each step on the disk. A test dies there.
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
	// Before anything is written, as a tmpfs may have no room for both. What can't be removed is reported by the sweep at the end.
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

// current is the name of the content, or empty if ..data leads to no directory in here.
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

// sweep removes what is the package's but for ..data and the content: former ones, and what kills have left. What can't be removed
// keeps nothing else from it.
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

// replace writes the tree as a new content and has ..data lead to it, all at once.
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

// show makes a link into the content for each of the names at its top, and removes the links for former names. A directory that has the name
// of one is a mount point, in which a container sees another volume: it stays, as with the kubelet.
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

// shownAs is where the link of that name leads.
func shownAs(name string) string { return dataLink + "/" + name }

// link puts a link in place of whatever has the name and is no directory.
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

// remove removes what has the name, and what is below it. It goes into a directory only once the kernel has said that it isn't empty:
// of a mount point it says that it's busy.
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

// Written tells whether the directory has a content.
func Written(dir string) bool {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return false
	}
	defer func() { _ = root.Close() }()
	return (&writer{root: root}).current() != ""
}

// Finish does what a Write that was killed has left to do, and tells whether the directory has a content then, which is that of the last
// Write. A directory that isn't there has none.
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
