package devnode

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"time"

	"golang.org/x/sys/unix"
)

// cgroupsTimeout is the time limit for a cgroup to become empty after its processes were killed.
const cgroupsTimeout = 10 * time.Second

// CgroupRoot returns the cgroup that contains all cgroups of the node's pods. It is podexecd's flag --cgroup-root.
// Close removes the cgroup.
func (n *Node) CgroupRoot() string {
	sum := sha256.Sum256([]byte(n.dir))
	return "/podstream-" + hex.EncodeToString(sum[:4])
}

// cgroupFlags returns podexecd's flags for the process of that name. The containers of a simulated runtime are in no
// cgroup. Endpoint needs no flags, because its processes are in other cgroups, which stay.
func (n *Node) cgroupFlags(process string) []string {
	switch n.config.Runtime {
	case Sim:
		return []string{"--cgroups-per-qos=false"}
	case Endpoint:
		return nil
	default:
		return []string{"--cgroup-root=" + filepath.Join(n.CgroupRoot(), process)}
	}
}

// CgroupDirs returns the directories of the node's cgroups, in each hierarchy, the innermost first.
func (n *Node) CgroupDirs() ([]string, error) {
	var dirs []string
	for _, pattern := range []string{"/sys/fs/cgroup", "/sys/fs/cgroup/*"} {
		roots, err := filepath.Glob(pattern + n.CgroupRoot())
		if err != nil {
			return nil, err
		}
		for _, root := range roots {
			err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
				if errors.Is(err, fs.ErrNotExist) {
					return nil // it was removed in the meantime
				}
				if err == nil && d.IsDir() {
					dirs = append(dirs, path)
				}
				return err
			})
			if err != nil {
				return nil, err
			}
		}
	}
	slices.Reverse(dirs)
	return dirs, nil
}

// removeCgroups removes the node's cgroups when they are empty.
func (n *Node) removeCgroups() error {
	dirs, err := n.CgroupDirs()
	errs := []error{err}
	deadline := time.Now().Add(cgroupsTimeout)
	for _, dir := range dirs {
		err := os.Remove(dir)
		for errors.Is(err, unix.EBUSY) && time.Now().Before(deadline) {
			time.Sleep(10 * time.Millisecond) // no event reports when the kernel has removed the processes
			err = os.Remove(dir)
		}
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			errs = append(errs, fmt.Errorf("remove a cgroup: %w", err))
		}
	}
	return errors.Join(errs...)
}
