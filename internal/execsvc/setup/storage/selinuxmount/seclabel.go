package selinuxmount

import (
	"slices"
	"strings"

	"github.com/podstream/podstream/internal/mounttable"
)

// Labelled reports whether files of the file system at that path have labels of their own, so that the container runtime can set
// them. table is a file with mounts, /proc/self/mountinfo. The path itself isn't accessed.
func Labelled(table, path string) (bool, error) {
	mounts, err := mounttable.SelectFile(table, func(m *mounttable.Mount) bool { return contains(m.Point, path) })
	if err != nil {
		return false, err
	}
	var at *mounttable.Mount
	for i := range mounts {
		// The last one at a mount point is the uppermost.
		if m := &mounts[i]; at == nil || len(m.Point) >= len(at.Point) {
			at = m
		}
	}
	const option = "seclabel"
	return at != nil && (slices.Contains(at.FSOptions, option) || slices.Contains(at.Options, option)), nil
}

// contains reports whether the path is the directory, or below it.
func contains(dir, path string) bool {
	return path == dir || strings.HasPrefix(path, strings.TrimSuffix(dir, "/")+"/")
}
