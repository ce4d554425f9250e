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

	"k8s.io/apimachinery/pkg/types"

	"github.com/podstream/podstream/internal/execsvc/criconfig"
	"github.com/podstream/podstream/internal/execsvc/volume/subpath"
	"github.com/podstream/podstream/internal/failpoint"
)

// ErrMounted is when something is mounted below a pod's directory that can't be unmounted, or that came meanwhile. Nothing was
// removed through it; TearDown can be tried again.
var ErrMounted = errors.New("something is still mounted there")

// TearDown unmounts everything below the pod's directory and then removes it, with all that its emptyDirs hold. It needs nothing but
// that directory. A pod without one is no error.
func (m *Manager) TearDown(ctx context.Context, uid types.UID) error {
	if err := criconfig.CheckUID(uid); err != nil {
		return err
	}
	m.hostPaths.forget(uid)
	if failpoint.Active(failpoint.LeaveDirectory) {
		return nil
	}
	podsDir, err := resolve(m.podsDir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("resolve the directory of pods: %w", err)
	}
	dir := filepath.Join(podsDir, string(uid))
	info, err := os.Lstat(dir)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil
	case err != nil:
		return fmt.Errorf("look at the pod's directory: %w", err)
	case !info.IsDir():
		return fmt.Errorf("%s isn't a directory", dir)
	}
	failpoint.Reached(failpoint.BeforeTearDown)
	// A plugin may not be able to let go of a volume of which a part is mounted elsewhere.
	if err := subpath.CleanUp(filepath.Join(dir, subPathsDir), m.mounter); err != nil {
		return fmt.Errorf("unmount subPaths: %w", err)
	}
	failpoint.Reached(failpoint.SubPathsGone)
	if err := m.tearDownVolumes(ctx, uid, filepath.Join(dir, volumesDir)); err != nil {
		return err
	}
	failpoint.Reached(failpoint.PluginsDone)
	if err := m.unmountBelow(ctx, dir); err != nil {
		return err
	}
	failpoint.Reached(failpoint.Unmounted)
	if err := removeTree(dir); err != nil {
		return fmt.Errorf("remove the pod's directory: %w", err)
	}
	failpoint.Reached(failpoint.AfterTearDown)
	return nil
}

// tearDownVolumes has the plugins let go of all volumes that have a directory. One that can't doesn't keep the others from it.
func (m *Manager) tearDownVolumes(ctx context.Context, uid types.UID, dir string) error {
	var errs []error
	for _, plugin := range m.plugins {
		of := filepath.Join(dir, dirName(plugin))
		entries, err := os.ReadDir(of)
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			errs = append(errs, fmt.Errorf("list volumes: %w", err))
		}
		for _, e := range entries {
			if err := ctx.Err(); err != nil {
				return errors.Join(append(errs, err)...)
			}
			if !e.IsDir() || checkName(e.Name()) != nil {
				continue
			}
			if err := plugin.TearDown(ctx, Volume{UID: uid, Name: e.Name(), Dir: filepath.Join(of, e.Name())}); err != nil {
				errs = append(errs, fmt.Errorf("UnmountVolume.TearDown failed for volume %q : %w", e.Name(), err))
			}
		}
	}
	return errors.Join(errs...)
}

// resolve is the path as the mount table has it: absolute and without links.
func resolve(path string) (string, error) {
	abs, err := filepath.Abs(path)
	if err != nil {
		return "", err
	}
	return filepath.EvalSymlinks(abs)
}

// unmountBelow unmounts dir and everything below it, the latest mount first: one may lie within, or over, an earlier one.
func (m *Manager) unmountBelow(ctx context.Context, dir string) error {
	mounts, err := m.mountsBelow(dir)
	if err != nil {
		return err
	}
	var errs []error
	for _, path := range slices.Backward(mounts) {
		if err := ctx.Err(); err != nil {
			return err
		}
		if err := m.mounter.Unmount(path); err != nil {
			errs = append(errs, fmt.Errorf("unmount %s: %w", path, err))
		}
	}
	// What counts is what is left: a mount may be gone though its unmount failed, or shared ones may go together.
	if mounts, err = m.mountsBelow(dir); err != nil {
		return err
	}
	if len(mounts) > 0 {
		return errors.Join(append(errs, fmt.Errorf("%s: %w", strings.Join(mounts, ", "), ErrMounted))...)
	}
	return nil
}

// mountsBelow are the mount points at and below dir, in the order in which they were mounted.
func (m *Manager) mountsBelow(dir string) ([]string, error) {
	all, err := m.mounter.List()
	if err != nil {
		return nil, fmt.Errorf("list the mounts: %w", err)
	}
	var below []string
	for _, mp := range all {
		path := tableEscapes.Replace(mp.Path)
		if path == dir || strings.HasPrefix(path, dir+"/") {
			below = append(below, path)
		}
	}
	return below, nil
}

// tableEscapes turns a path of /proc/mounts into what it stands for.
var tableEscapes = strings.NewReplacer(`\040`, " ", `\011`, "\t", `\012`, "\n", `\134`, `\`)
