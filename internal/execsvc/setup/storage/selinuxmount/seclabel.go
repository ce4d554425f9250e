package selinuxmount

import (
	"fmt"
	"slices"
	"strings"

	"k8s.io/mount-utils"
)

// Labelled reports whether files of the file system at that path have labels of their own, so that the container runtime can set
// them. table is a file with mounts, /proc/self/mountinfo. The path itself isn't accessed.
func Labelled(table, path string) (bool, error) {
	mounts, err := mount.ParseMountInfo(table)
	if err != nil {
		return false, fmt.Errorf("read the mounts: %w", err)
	}
	var at *mount.MountInfo
	for i := range mounts {
		// The last one at a mount point is the uppermost.
		if m := &mounts[i]; contains(m.MountPoint, path) && (at == nil || len(m.MountPoint) >= len(at.MountPoint)) {
			at = m
		}
	}
	const option = "seclabel"
	return at != nil && (slices.Contains(at.SuperOptions, option) || slices.Contains(at.MountOptions, option)), nil
}

// contains reports whether the path is the directory, or below it.
func contains(dir, path string) bool {
	return path == dir || strings.HasPrefix(path, strings.TrimSuffix(dir, "/")+"/")
}
