package atomicdir

import (
	"fmt"
	"io/fs"
	"os"
	"strings"

	"github.com/podstream/podstream/internal/execsvc/setup/volume/payload"
)

// The modes of directories, and the bits that an fsGroup adds, as for any volume that is read-only for containers
// (pkg/volume/volume_linux.go).
const (
	dirMode    = fs.ModeDir | 0o755
	groupDirs  = fs.ModeSetgid | 0o550
	groupFiles = 0o440
)

// node is the wanted state of a file or a directory.
type node struct {
	mode     fs.FileMode
	uid, gid int
	data     []byte
	// children by name; nil for a file.
	children map[string]*node
}

// names returns the names in the directory.
func (n *node) names() map[string]bool {
	names := make(map[string]bool, len(n.children))
	for name := range n.children {
		names[name] = true
	}
	return names
}

// treeOf builds the tree of files by path.
func treeOf(files map[string]payload.File, fsGroup *int64) (*node, error) {
	t := template{dir: dirMode, gid: os.Getegid()}
	if fsGroup != nil {
		t.dir, t.file, t.gid = dirMode|groupDirs, groupFiles, int(*fsGroup)
	}
	root := t.newDir()
	for path, file := range files {
		if err := t.add(root, path, file); err != nil {
			return nil, err
		}
	}
	return root, nil
}

// template has the attributes that all nodes of a tree share.
type template struct {
	// dir is the mode of directories; file is added to the mode of files.
	dir, file fs.FileMode
	gid       int
}

func (t template) newDir() *node {
	return &node{mode: t.dir, uid: os.Geteuid(), gid: t.gid, children: map[string]*node{}}
}

func (t template) newFile(f payload.File) *node {
	n := &node{mode: fs.FileMode(f.Mode) | t.file, uid: os.Geteuid(), gid: t.gid, data: f.Data}
	if f.UID != nil {
		n.uid = int(*f.UID)
	}
	return n
}

// add adds a file below the directory.
func (t template) add(dir *node, path string, file payload.File) error {
	clean, err := payload.CleanPath(path)
	if err != nil {
		return err
	}
	if file.Mode > uint32(fs.ModePerm) {
		return fmt.Errorf("path %q: mode %#o is more than permissions", path, file.Mode)
	}
	elements := strings.Split(clean, "/")
	last := len(elements) - 1
	for _, name := range elements[:last] {
		child := dir.children[name]
		if child == nil {
			child = t.newDir()
			dir.children[name] = child
		}
		if child.children == nil {
			return fmt.Errorf("path %q: %q is a file", path, name)
		}
		dir = child
	}
	if other := dir.children[elements[last]]; other != nil {
		return fmt.Errorf("path %q is used by another file or directory", path)
	}
	dir.children[elements[last]] = t.newFile(file)
	return nil
}
