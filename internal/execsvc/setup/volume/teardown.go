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
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/podstream/podstream/internal/execsvc/pod/podmeta"
	"github.com/podstream/podstream/internal/failpoint"
)

// ErrMounted is returned when a mount below a pod's directory can't be unmounted, or appeared meanwhile. Nothing was
// removed through it; TearDown can be retried.
var ErrMounted = errors.New("something is still mounted there")

// TearDown unmounts everything below the pod's directory and then removes it, with the content of its emptyDirs. It
// needs only that directory. A missing one is no error. In the directories of persistent volumes it unmounts nothing, as
// their plugin does that, and it removes only what is empty. If their plugin fails, the emptyDirs are removed all the same.
func (m *Manager) TearDown(ctx context.Context, uid types.UID) error {
	if podmeta.CheckUID(uid) != nil {
		// A pod whose UID can't be the name of a directory never had one. An error would be repeated for ever.
		return nil //nolint:nilerr // see above
	}
	m.hostPaths.drop(uid)
	if failpoint.Active(failpoint.LeaveDirectory) {
		return nil
	}
	// A pod may have a directory in both places, if the node went back to an earlier version and came again.
	for _, root := range m.podDirs.Roots() {
		if err := m.releaseIn(ctx, root, uid); err != nil {
			return errors.Join(err, m.freeDisk(ctx, uid))
		}
	}
	// A plugin may still make a directory before it has released everything.
	if err := m.release(ctx, uid); err != nil {
		return errors.Join(err, m.freeDisk(ctx, uid))
	}
	for _, root := range m.podDirs.Roots() {
		if err := m.removeIn(ctx, root, uid); err != nil {
			return err
		}
	}
	m.metrics.tornDown(uid)
	return nil
}

// dirIn returns the resolved directory of pods in one place, and whether the pod has a directory there.
func (m *Manager) dirIn(root string, uid types.UID) (podsDir string, exists bool, err error) {
	podsDir, err = resolve(root)
	if errors.Is(err, fs.ErrNotExist) {
		return "", false, nil
	}
	if err != nil {
		return "", false, fmt.Errorf("resolve the directory of pods: %w", err)
	}
	dir := filepath.Join(podsDir, string(uid))
	info, err := os.Lstat(dir)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return "", false, nil
	case err != nil:
		return "", false, fmt.Errorf("stat the pod's directory: %w", err)
	case !info.IsDir():
		return "", false, fmt.Errorf("%s isn't a directory", dir)
	}
	return podsDir, true, nil
}

// releaseIn has the plugins tear down the volumes in the pod's directory in one place.
func (m *Manager) releaseIn(ctx context.Context, root string, uid types.UID) error {
	podsDir, exists, err := m.dirIn(root, uid)
	if err != nil || !exists {
		return err
	}
	dir := filepath.Join(podsDir, string(uid))
	failpoint.Reached(failpoint.BeforeTearDown)
	// A plugin may be unable to release a volume while a subPath of it is mounted.
	if err := m.cleanSubPaths(ctx, podsDir, filepath.Join(dir, subPathsDir)); err != nil {
		return fmt.Errorf("unmount subPaths: %w", err)
	}
	failpoint.Reached(failpoint.SubPathsGone)
	if err := m.tearDownVolumes(ctx, uid, filepath.Join(dir, volumesDir)); err != nil {
		return err
	}
	failpoint.Reached(failpoint.PluginsDone)
	return nil
}

// removeIn unmounts what is left in the pod's directory in one place, and removes it.
func (m *Manager) removeIn(ctx context.Context, root string, uid types.UID) error {
	podsDir, exists, err := m.dirIn(root, uid)
	if err != nil || !exists {
		return err
	}
	dir := filepath.Join(podsDir, string(uid))
	var guarded []string
	for _, name := range m.guardedDirs() {
		name = filepath.Join(string(uid), volumesDir, name)
		if err := (emptied{podsDir, openHere}).remove(name); err != nil {
			return fmt.Errorf("remove the directories of persistent volumes: %w", err)
		}
		guarded = append(guarded, filepath.Join(podsDir, name))
	}
	devices, err := m.removeDevices(podsDir, uid)
	if err != nil {
		return err
	}
	guarded = append(guarded, devices...)
	if err := m.unmountBelow(ctx, dir, guarded); err != nil {
		return err
	}
	failpoint.Reached(failpoint.Unmounted)
	if err := removeTree(dir, guarded...); err != nil {
		return fmt.Errorf("remove the pod's directory: %w", err)
	}
	failpoint.Reached(failpoint.AfterTearDown)
	return nil
}

// release has the Located plugins release what the pod has, also without a directory.
func (m *Manager) release(ctx context.Context, uid types.UID) error {
	var errs []error
	for _, l := range m.located() {
		if err := l.Release(ctx, uid); err != nil {
			errs = append(errs, fmt.Errorf("release the volumes of %s: %w", l.Name(), err))
		}
	}
	return errors.Join(errs...)
}

// tearDownVolumes calls the plugins for all volumes that have a directory, side by side. A failure doesn't keep the others
// from being torn down.
func (m *Manager) tearDownVolumes(ctx context.Context, uid types.UID, dir string) error {
	var errs []error
	var all []func() error
	for _, plugin := range m.plugins {
		names := []string{plugin.Name()}
		if l, ok := plugin.(Located); ok {
			names = l.Plugins()
		}
		for _, name := range names {
			of := filepath.Join(dir, escaped(name))
			entries, err := os.ReadDir(of)
			if err != nil && !errors.Is(err, fs.ErrNotExist) {
				errs = append(errs, fmt.Errorf("list volumes: %w", err))
			}
			for _, e := range entries {
				if !e.IsDir() || checkName(e.Name()) != nil {
					continue
				}
				v := Volume{UID: uid, Name: e.Name(), Dir: filepath.Join(of, e.Name())}
				all = append(all, func() error { return m.tearDownVolume(ctx, plugin, name, v) })
			}
		}
	}
	return errors.Join(append(errs, sideBySide(ctx, all)...)...)
}

// tearDownVolume tears down one volume. name is that of the plugin in whose directory it lies.
func (m *Manager) tearDownVolume(ctx context.Context, plugin Plugin, name string, v Volume) error {
	began := time.Now()
	err := plugin.TearDown(ctx, v)
	m.metrics.observe(name, opUnmount, time.Since(began), err)
	if err != nil {
		return fmt.Errorf("UnmountVolume.TearDown failed for volume %q : %w", v.Name, err)
	}
	return nil
}

// resolve returns the path as in the mount table: absolute and without links.
func resolve(path string) (string, error) {
	abs, err := filepath.Abs(path)
	if err != nil {
		return "", err
	}
	return filepath.EvalSymlinks(abs)
}

// unmountBelow unmounts dir and everything below it, the latest mount first: it may lie in, or over, an earlier one. It
// unmounts nothing in the guarded directories.
func (m *Manager) unmountBelow(ctx context.Context, dir string, guarded []string) error {
	mounts, err := m.mountsBelow(dir)
	if err != nil {
		return err
	}
	var errs []error
	for _, path := range slices.Backward(mounts) {
		if err := ctx.Err(); err != nil {
			return err
		}
		if slices.ContainsFunc(guarded, func(g string) bool { return path == g || strings.HasPrefix(path, g+"/") }) {
			continue
		}
		if err := m.mounter.Unmount(path); err != nil {
			errs = append(errs, fmt.Errorf("unmount %s: %w", path, err))
		}
	}
	// The remaining mounts decide: a mount may be gone although its unmount failed, and shared mounts may go
	// together.
	if mounts, err = m.mountsBelow(dir); err != nil {
		return err
	}
	if len(mounts) > 0 {
		return errors.Join(append(errs, fmt.Errorf("%s: %w", strings.Join(mounts, ", "), ErrMounted))...)
	}
	return nil
}

// mountsBelow returns the mount points at and below dir, in the order of mounting.
func (m *Manager) mountsBelow(dir string) ([]string, error) {
	all, err := m.mounter.List()
	if err != nil {
		return nil, fmt.Errorf("list the mounts: %w", err)
	}
	var below []string
	for _, mp := range all {
		if path := mp.Path; path == dir || strings.HasPrefix(path, dir+"/") {
			below = append(below, path)
		}
	}
	return below, nil
}
