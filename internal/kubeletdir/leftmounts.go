package kubeletdir

import (
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"

	"github.com/podstream/podstream/internal/mounttable"
)

// noneMounted returns an error if a volume is mounted in the directory of plugins, and isn't one of those that are recorded.
func noneMounted(plugins string, recorded []string) error {
	// The table has no links.
	resolved, err := filepath.EvalSymlinks(plugins)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return unknown(err)
	}
	isLeft := func(m *mounttable.Mount) bool {
		at, below := strings.CutPrefix(m.Point, resolved+"/")
		return below && isStaged(at) && !slices.ContainsFunc(recorded, func(own string) bool { return at == own || strings.HasPrefix(at, own+"/") })
	}
	mounts, err := mounttable.Select(isLeft)
	switch {
	case err != nil:
		return fmt.Errorf("--kubelet-dir: look for volumes that a kubelet left: %w", err)
	case len(mounts) > 0:
		return errLeft(mounts[0].Point)
	}
	return nil
}

// isStaged reports whether a path in the directory of plugins is where a plugin of the kubelet mounts volumes, or below it. CSI drivers
// may have mounts of their own beside those that the kubelet asks them for.
func isStaged(at string) bool {
	const (
		driverDepth = 4 // kubernetes.io/csi/DRIVER/HASH/globalmount
		globalMount = "globalmount"
	)
	parts := strings.Split(at, "/")
	switch {
	case strings.HasPrefix(parts[0], inTreeEscaped):
		return len(parts) > 1
	case parts[0] != inTree || len(parts) <= 2:
		return false
	case parts[1] != csiName:
		return true
	case parts[2] == devicesName:
		return len(parts) >= driverDepth
	}
	return len(parts) > driverDepth && parts[driverDepth] == globalMount
}
