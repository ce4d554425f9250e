package volume

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"k8s.io/mount-utils"

	"github.com/podstream/podstream/internal/execsvc/setup/foreign"
	"github.com/podstream/podstream/internal/execsvc/setup/volume/subpath"
)

// bindSubPath binds a subPath, and returns where. name is the Source's Foreign.
func (m *Manager) bindSubPath(ctx context.Context, name string, r subpath.Request) (string, error) {
	if name == "" {
		return subpath.Prepare(ctx, r)
	}
	bound, err := m.helpers.Do(ctx, name, foreign.Job{SubPath: &foreign.SubPath{
		Root: r.Root, SubPath: r.SubPath, Target: r.Target, ReadOnly: r.ReadOnly,
	}})
	return bound.Path, err
}

// cleanSubPaths unmounts and removes what is in a pod's volume-subpaths. Each volume of which a file system may hang is left
// to a helper.
func (m *Manager) cleanSubPaths(ctx context.Context, podsDir, dir string) error {
	mounts, err := m.mounter.List()
	if err != nil {
		return fmt.Errorf("list the mounts: %w", err)
	}
	var errs []error
	for _, name := range foreignBelow(mounts, podsDir, dir) {
		of := filepath.Join(dir, name)
		if _, err := os.Lstat(of); errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if _, err := m.helpers.Do(ctx, of, foreign.Job{CleanSubPaths: of}); err != nil {
			errs = append(errs, err)
		}
	}
	if len(errs) > 0 {
		return errors.Join(errs...)
	}
	return subpath.CleanUp(dir, m.mounter)
}

// foreignBelow returns the names in dir below which a file system is mounted that isn't in memory, and isn't that of the
// directory of pods.
func foreignBelow(mounts []mount.MountPoint, podsDir, dir string) []string {
	var own mount.MountPoint
	for _, mp := range mounts {
		// Of several mounts at one path the last one is seen.
		at := strings.TrimSuffix(mp.Path, "/")
		if (podsDir == at || strings.HasPrefix(podsDir, at+"/")) && len(mp.Path) >= len(own.Path) {
			own = mp
		}
	}
	var names []string
	seen := map[string]bool{}
	for _, mp := range mounts {
		below, ok := strings.CutPrefix(mp.Path, dir+"/")
		if !ok || mp.Type == "tmpfs" || mp.Device == own.Device && mp.Type == own.Type {
			continue
		}
		name, _, _ := strings.Cut(below, "/")
		if !seen[name] {
			seen[name] = true
			names = append(names, name)
		}
	}
	return names
}
