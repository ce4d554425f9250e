package volume

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"slices"
	"strings"

	v1 "k8s.io/api/core/v1"

	"github.com/podstream/podstream/internal/execsvc/pod/podmeta"
)

// mountPointMode is the mode of a directory in a volume on which another volume is mounted.
const mountPointMode = 0o755

// makeMountPoints creates a directory for each other volume that a container mounts inside this one: the runtime sees
// this volume read-only, and can't create it. It skips a path that starts with a name of the volume's content.
func makeMountPoints(v Volume) error {
	paths := mountPoints(v.Pod, v.Name)
	if len(paths) == 0 {
		return nil
	}
	root, err := os.OpenRoot(v.Dir)
	if err != nil {
		return fmt.Errorf("open the volume: %w", err)
	}
	defer func() { _ = root.Close() }()
	for _, p := range paths {
		top, _, _ := strings.Cut(p, "/")
		if info, err := root.Lstat(top); err == nil && !info.IsDir() {
			continue
		}
		if err := makeMountPoint(root, p); err != nil {
			return fmt.Errorf("make the mount point %q: %w", p, err)
		}
	}
	return nil
}

// makeMountPoint creates the directory and its parents, with the mode in spite of the umask.
func makeMountPoint(root *os.Root, p string) error {
	if above := path.Dir(p); above != "." {
		if err := makeMountPoint(root, above); err != nil {
			return err
		}
	}
	err := root.Mkdir(p, mountPointMode)
	if errors.Is(err, fs.ErrExist) {
		return nil
	}
	if err != nil {
		return err
	}
	return root.Chmod(p, mountPointMode)
}

// mountPoints returns the paths within the volume at which a container mounts another one; paths within a third
// volume are that one's.
func mountPoints(pod *v1.Pod, volume string) []string {
	var points []string
	for _, c := range podmeta.Containers(pod) {
		for i := range c.VolumeMounts {
			vm := &c.VolumeMounts[i]
			// With a subPath the container doesn't see the volume's own directory.
			if vm.Name != volume || vm.SubPath != "" || vm.SubPathExpr != "" {
				continue
			}
			for _, p := range mountsWithin(c, cleanPath(vm)) {
				if !slices.Contains(points, p) {
					points = append(points, p)
				}
			}
		}
	}
	return points
}

// mountsWithin returns the paths of the container's mounts below base, relative to it, without those below another
// such mount.
func mountsWithin(c *v1.Container, base string) []string {
	var within []string
	for i := range c.VolumeMounts {
		if p, ok := strings.CutPrefix(cleanPath(&c.VolumeMounts[i]), strings.TrimSuffix(base, "/")+"/"); ok && p != "" {
			within = append(within, p)
		}
	}
	return slices.DeleteFunc(slices.Clone(within), func(p string) bool {
		return slices.ContainsFunc(within, func(above string) bool { return strings.HasPrefix(p, above+"/") })
	})
}

// cleanPath returns the mount's path in the container, absolute and without "..".
func cleanPath(vm *v1.VolumeMount) string { return path.Clean("/" + vm.MountPath) }
