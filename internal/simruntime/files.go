package simruntime

import (
	"errors"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"
	"syscall"

	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// files is what a container sees as its file system: its mounts, which are real, and its own layer, which is in memory.
type files struct {
	mounts []*runtimeapi.Mount
	layer  map[string][]byte
}

func newFiles(mounts []*runtimeapi.Mount) *files {
	return &files{mounts: mounts, layer: make(map[string][]byte)}
}

// mounted finds the innermost mount that name is in, and its path on the host. Nil: the name is in the container's layer.
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

// write makes or replaces a file. In the container's own layer every directory exists.
func (f *files) write(name, text string) error {
	clean := path.Clean("/" + name)
	m, host := f.mounted(clean)
	switch {
	case m == nil:
		f.layer[clean] = []byte(text)
		return nil
	case m.GetReadonly():
		return &fs.PathError{Op: "open", Path: name, Err: syscall.EROFS}
	}
	return inContainer(os.WriteFile(host, []byte(text), 0o644), name)
}

// inContainer names the file as the container knows it.
func inContainer(err error, name string) error {
	if pathErr, ok := errors.AsType[*fs.PathError](err); ok {
		return &fs.PathError{Op: pathErr.Op, Path: name, Err: pathErr.Err}
	}
	return err
}
