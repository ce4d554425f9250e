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

// hostPath is the plugin for hostPath volumes. Such a volume is not the pod's own: it gets no fsGroup, and outlives
// the pod. If a path disappears while the pod runs, such as a daemon's socket, containers to be started wait for it,
// and the rest of the pod continues.
type hostPath struct {
	plain
	nodePaths *nodePaths

	mu sync.Mutex
	// good are the volumes of each pod that passed their check at least once.
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
func (h *hostPath) SetUp(ctx context.Context, v Volume) error {
	key := hostPathKey{v.Spec.HostPath.Path, ptr.Deref(v.Spec.HostPath.Type, v1.HostPathUnset)}
	err := h.nodePaths.setUpHostPath(ctx, v.Pod, v.Spec.HostPath)
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

// drop drops the pod's volumes from good. They have no directories, so TearDown isn't called for them.
func (h *hostPath) drop(uid types.UID) {
	h.mu.Lock()
	defer h.mu.Unlock()
	delete(h.good, uid)
}

// Source is part of Plugin.
func (*hostPath) Source(v Volume) Source { return Source{Path: v.Spec.HostPath.Path} }

// The modes of created directories and files.
const (
	hostDirMode  = 0o755
	hostFileMode = 0o644
)

// kind is a file type that a hostPath can require.
type kind struct {
	// what is its name in messages.
	what string
	is   func(fs.FileMode) bool
}

// fileTypes are the types that a path can have, as messages name them.
var fileTypes = []v1.HostPathType{v1.HostPathDirectory, v1.HostPathFile, v1.HostPathSocket, v1.HostPathCharDev, v1.HostPathBlockDev}

var kinds = map[v1.HostPathType]kind{
	v1.HostPathDirectoryOrCreate: {"directory", fs.FileMode.IsDir},
	v1.HostPathDirectory:         {"directory", fs.FileMode.IsDir},
	v1.HostPathFileOrCreate:      {"file", fs.FileMode.IsRegular},
	v1.HostPathFile:              {"file", fs.FileMode.IsRegular},
	v1.HostPathSocket:            {"socket file", func(m fs.FileMode) bool { return m.Type() == fs.ModeSocket }},
	v1.HostPathCharDev:           {"character device", func(m fs.FileMode) bool { return m.Type() == fs.ModeDevice|fs.ModeCharDevice }},
	v1.HostPathBlockDev:          {"block device", func(m fs.FileMode) bool { return m.Type() == fs.ModeDevice }},
}

// setUpHostPath creates a missing path if the type requires it, and then checks the type. It follows links. Without a
// type it accepts anything, also a missing path.
func setUpHostPath(h *v1.HostPathVolumeSource) error {
	if !filepath.IsAbs(h.Path) || slices.Contains(strings.Split(h.Path, "/"), "..") {
		return fmt.Errorf("hostPath.path %q must be absolute and without \"..\"", h.Path)
	}
	if h.Type == nil || *h.Type == v1.HostPathUnset {
		return nil
	}
	wanted, ok := kinds[*h.Type]
	if !ok {
		return fmt.Errorf("hostPath.type %q is unknown", *h.Type)
	}
	info, err := os.Stat(h.Path)
	if errors.Is(err, fs.ErrNotExist) {
		if err := makeHostPath(h); err != nil {
			return fmt.Errorf("hostPath: %w", err)
		}
		info, err = os.Stat(h.Path)
	}
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return fmt.Errorf("hostPath type check failed, %s is not a %s, unable to determine its type: path %q does not exist", h.Path, wanted.what, h.Path)
	case err != nil:
		return fmt.Errorf("hostPath type check failed, %s is not a %s, unable to determine its type: %w", h.Path, wanted.what, err)
	case !wanted.is(info.Mode()):
		return fmt.Errorf("hostPath type check failed: %s is not a %s, it's a %s", h.Path, wanted.what, typeOf(info.Mode()))
	}
	return nil
}

// typeOf returns the type of a file, as a hostPath names it.
func typeOf(mode fs.FileMode) string {
	for _, t := range fileTypes {
		if kinds[t].is(mode) {
			return string(t)
		}
	}
	return mode.Type().String()
}

// makeHostPath creates the path if the type requires it. It sets the mode in spite of the umask, but only of what it
// created itself: another process may have been faster.
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
		// The parent directory must exist, as with the kubelet.
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
