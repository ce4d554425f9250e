package volume

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
)

// hostPath is the kind of volume that is a path of the node. It is never the pod's own: no fsGroup gets it, and it outlives the pod. What
// the node takes away while the pod runs, the socket of a daemon perhaps, is waited for by a container that is to start with it, but keeps
// nothing else of the pod from going on.
type hostPath struct {
	plain
	mu sync.Mutex
	// good are the volumes of pods that were as they should be at least once.
	good map[types.UID]map[hostPathKey]bool
}

type hostPathKey struct {
	path string
	kind v1.HostPathType
}

// Name is part of Plugin.
func (*hostPath) Name() string { return "kubernetes.io/host-path" }

// Takes is part of Plugin.
func (*hostPath) Takes(spec *v1.Volume) bool { return spec.HostPath != nil }

// SetUp is part of Plugin.
func (h *hostPath) SetUp(_ context.Context, v Volume) error {
	key := hostPathKey{v.Spec.HostPath.Path, ptr.Deref(v.Spec.HostPath.Type, v1.HostPathUnset)}
	err := setUpHostPath(v.Spec.HostPath)
	h.mu.Lock()
	defer h.mu.Unlock()
	switch {
	case err == nil && h.good[v.UID] == nil:
		h.good[v.UID] = map[hostPathKey]bool{key: true}
	case err == nil:
		h.good[v.UID][key] = true
	case h.good[v.UID][key]:
		return &OutdatedError{err}
	}
	return err
}

// forget drops what is known of a pod's volumes. They have no directories, so TearDown isn't called for them.
func (h *hostPath) forget(uid types.UID) {
	h.mu.Lock()
	defer h.mu.Unlock()
	delete(h.good, uid)
}

// Source is part of Plugin.
func (*hostPath) Source(v Volume) Source { return Source{Path: v.Spec.HostPath.Path} }

// The modes of what a hostPath makes.
const (
	hostDirMode  = 0o755
	hostFileMode = 0o644
)

// kind is one sort of file that a hostPath can ask for.
type kind struct {
	// what it is called in messages.
	what string
	is   func(fs.FileMode) bool
}

var kinds = map[v1.HostPathType]kind{
	v1.HostPathDirectoryOrCreate: {"a directory", fs.FileMode.IsDir},
	v1.HostPathDirectory:         {"a directory", fs.FileMode.IsDir},
	v1.HostPathFileOrCreate:      {"a file", fs.FileMode.IsRegular},
	v1.HostPathFile:              {"a file", fs.FileMode.IsRegular},
	v1.HostPathSocket:            {"a socket", func(m fs.FileMode) bool { return m.Type() == fs.ModeSocket }},
	v1.HostPathCharDev:           {"a character device", func(m fs.FileMode) bool { return m.Type() == fs.ModeDevice|fs.ModeCharDevice }},
	v1.HostPathBlockDev:          {"a block device", func(m fs.FileMode) bool { return m.Type() == fs.ModeDevice }},
}

// setUpHostPath makes the path if the type says so and nothing is there, and then sees whether it is what the type says. Links
// are followed. Without a type anything goes, nothing too.
func setUpHostPath(h *v1.HostPathVolumeSource) error {
	if !filepath.IsAbs(h.Path) || slices.Contains(strings.Split(h.Path, "/"), "..") {
		return fmt.Errorf("hostPath.path %q has to be absolute and without \"..\"", h.Path)
	}
	if h.Type == nil || *h.Type == v1.HostPathUnset {
		return nil
	}
	wanted, ok := kinds[*h.Type]
	if !ok {
		return fmt.Errorf("hostPath.type %q isn't known", *h.Type)
	}
	info, err := os.Stat(h.Path)
	if errors.Is(err, fs.ErrNotExist) {
		if err := makeHostPath(h); err != nil {
			return fmt.Errorf("hostPath: %w", err)
		}
		info, err = os.Stat(h.Path)
	}
	if errors.Is(err, fs.ErrNotExist) || (err == nil && !wanted.is(info.Mode())) {
		return fmt.Errorf("hostPath type check failed: %s is not %s", h.Path, wanted.what)
	}
	if err != nil {
		return fmt.Errorf("hostPath type check failed: %w", err)
	}
	return nil
}

// makeHostPath makes what isn't there, if the type asks for it. The mode is set in spite of the umask, but only of what was made
// here: another may have been faster.
func makeHostPath(h *v1.HostPathVolumeSource) error {
	switch *h.Type {
	case v1.HostPathDirectoryOrCreate:
		if err := os.MkdirAll(filepath.Dir(filepath.Clean(h.Path)), hostDirMode); err != nil {
			return fmt.Errorf("make the directory: %w", err)
		}
		err := os.Mkdir(h.Path, hostDirMode)
		if errors.Is(err, fs.ErrExist) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("make the directory: %w", err)
		}
		return chmod(h.Path, hostDirMode)
	case v1.HostPathFileOrCreate:
		// The directory has to be there: so has it with the kubelet.
		f, err := os.OpenFile(h.Path, os.O_CREATE|os.O_EXCL|os.O_RDONLY, hostFileMode)
		if errors.Is(err, fs.ErrExist) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("make the file: %w", err)
		}
		return errors.Join(f.Chmod(hostFileMode), f.Close())
	}
	return nil
}
