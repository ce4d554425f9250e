package simruntime

import (
	"errors"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// files is a container's file system: its mounts, which are on disk, and its own layer, which is in memory.
type files struct {
	mounts []*runtimeapi.Mount
	layer  map[string][]byte
}

func newFiles(mounts []*runtimeapi.Mount) *files {
	return &files{mounts: mounts, layer: make(map[string][]byte)}
}

// mounted returns the innermost mount that contains name, and the path on the host. The mount is nil if the name is in
// the container's layer.
func (f *files) mounted(name string) (*runtimeapi.Mount, string) {
	var found *runtimeapi.Mount
	var below string
	for _, m := range f.mounts {
		at := path.Clean(m.GetContainerPath())
		rest, ok := strings.CutPrefix(name, strings.TrimSuffix(at, "/"))
		if !ok || (rest != "" && rest[0] != '/') {
			continue
		}
		if found == nil || len(at) >= len(path.Clean(found.GetContainerPath())) {
			found, below = m, rest
		}
	}
	if found == nil {
		return nil, ""
	}
	return found, filepath.Join(found.GetHostPath(), filepath.FromSlash(below))
}

func (f *files) read(name string) ([]byte, error) {
	clean := path.Clean("/" + name)
	if m, host := f.mounted(clean); m != nil {
		content, err := os.ReadFile(host)
		return content, inContainer(err, name)
	}
	content, ok := f.layer[clean]
	if !ok {
		return nil, &fs.PathError{Op: "open", Path: name, Err: syscall.ENOENT}
	}
	return content, nil
}

func (f *files) stat(name string) error {
	clean := path.Clean("/" + name)
	if m, host := f.mounted(clean); m != nil {
		_, err := os.Stat(host)
		return inContainer(err, name)
	}
	if _, ok := f.layer[clean]; !ok {
		return &fs.PathError{Op: "stat", Path: name, Err: syscall.ENOENT}
	}
	return nil
}

// write creates or replaces a file. In the container's layer every directory exists.
func (f *files) write(name, text string) error {
	return f.open(name, os.O_TRUNC, text)
}

// append appends to a file, and creates it if needed.
func (f *files) append(name, text string) error {
	return f.open(name, os.O_APPEND, text)
}

// create creates an empty file. If it exists the error is fs.ErrExist.
func (f *files) create(name string) error {
	return f.open(name, os.O_EXCL, "")
}

// open writes text to a file, and creates it if needed. flag is added to the flags for os.OpenFile.
func (f *files) open(name string, flag int, text string) error {
	clean := path.Clean("/" + name)
	m, host := f.mounted(clean)
	if m != nil && m.GetReadonly() {
		return &fs.PathError{Op: "open", Path: name, Err: syscall.EROFS}
	}
	if m != nil {
		file, err := os.OpenFile(host, os.O_WRONLY|os.O_CREATE|flag, 0o644)
		if err != nil {
			return inContainer(err, name)
		}
		_, err = file.WriteString(text)
		return inContainer(errors.Join(err, file.Close()), name)
	}
	content, exists := f.layer[clean]
	switch {
	case exists && flag == os.O_EXCL:
		return &fs.PathError{Op: "open", Path: name, Err: syscall.EEXIST}
	case flag == os.O_APPEND:
		f.layer[clean] = slices.Concat(content, []byte(text))
	default:
		f.layer[clean] = []byte(text)
	}
	return nil
}

func (f *files) remove(name string) error {
	clean := path.Clean("/" + name)
	m, host := f.mounted(clean)
	if m != nil && m.GetReadonly() {
		return &fs.PathError{Op: "remove", Path: name, Err: syscall.EROFS}
	}
	if m != nil {
		return inContainer(os.Remove(host), name)
	}
	if _, ok := f.layer[clean]; !ok {
		return &fs.PathError{Op: "remove", Path: name, Err: syscall.ENOENT}
	}
	delete(f.layer, clean)
	return nil
}

// inContainer replaces the file's path in the error by the path in the container.
func inContainer(err error, name string) error {
	if pathErr, ok := errors.AsType[*fs.PathError](err); ok {
		return &fs.PathError{Op: pathErr.Op, Path: name, Err: pathErr.Err}
	}
	return err
}
