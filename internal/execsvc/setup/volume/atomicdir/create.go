package atomicdir

import (
	"bytes"
	"errors"
	"io/fs"
	"os"
	"syscall"
)

// draftMode is the mode of a directory until it is complete: no other user can see a part of it.
const draftMode = 0o700

// create creates the node, which must not exist, and its children.
func (w *writer) create(parent *os.Root, name string, n *node) error {
	if n.children == nil {
		return w.createFile(parent, name, n)
	}
	if err := parent.Mkdir(name, draftMode); err != nil {
		return err
	}
	w.stepped()
	if err := w.fill(parent, name, n); err != nil {
		return err
	}
	if err := parent.Lchown(name, n.uid, n.gid); err != nil {
		return err
	}
	w.stepped()
	// After the owner: the kernel may clear the setgid bit on a chown.
	if err := parent.Chmod(name, n.mode); err != nil {
		return err
	}
	w.stepped()
	return nil
}

// fill creates the children of the directory.
func (w *writer) fill(parent *os.Root, name string, n *node) error {
	dir, err := parent.OpenRoot(name)
	if err != nil {
		return err
	}
	defer func() { _ = dir.Close() }()
	for child := range n.children {
		if err := w.create(dir, child, n.children[child]); err != nil {
			return err
		}
	}
	return nil
}

func (w *writer) createFile(parent *os.Root, name string, n *node) error {
	f, err := parent.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	w.stepped()
	steps := []func() error{
		func() error { _, err := f.Write(n.data); return err },
		func() error { return f.Chown(n.uid, n.gid) },
		func() error { return f.Chmod(n.mode) },
	}
	for _, step := range steps {
		if err := step(); err != nil {
			return errors.Join(err, f.Close())
		}
		w.stepped()
	}
	return f.Close()
}

// same reports whether the named entry equals the node with all its children. An unreadable entry differs, so that it
// is written again.
func same(parent *os.Root, name string, n *node) bool {
	info, err := parent.Lstat(name)
	if err != nil || info.Mode() != n.mode || !ownedBy(info, n.uid, n.gid) {
		return false
	}
	if n.children == nil {
		if info.Size() != int64(len(n.data)) {
			return false
		}
		data, err := parent.ReadFile(name)
		return err == nil && bytes.Equal(data, n.data)
	}
	dir, err := parent.OpenRoot(name)
	if err != nil {
		return false
	}
	defer func() { _ = dir.Close() }()
	entries, err := fs.ReadDir(dir.FS(), ".")
	if err != nil || len(entries) != len(n.children) {
		return false
	}
	for _, e := range entries {
		child := n.children[e.Name()]
		if child == nil || !same(dir, e.Name(), child) {
			return false
		}
	}
	return true
}

func ownedBy(info fs.FileInfo, uid, gid int) bool {
	stat, ok := info.Sys().(*syscall.Stat_t)
	return ok && int(stat.Uid) == uid && int(stat.Gid) == gid
}
