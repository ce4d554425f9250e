package volume

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
)

// emptyDirPlugin is the kubelet's name for the directory of all emptyDirs of a pod.
const emptyDirPlugin = "kubernetes.io~empty-dir"

// emptyDirMode is that of an emptyDir for which the pod asks nothing else; setGID and groupAccess are added with an fsGroup.
const (
	emptyDirMode = 0o777
	setGID       = 0o2000
	groupAccess  = 0o070
)

func (m *Manager) emptyDir(uid types.UID, name string) string {
	return filepath.Join(m.podDir(uid), "volumes", emptyDirPlugin, name)
}

// access is what an emptyDir's own directory is made with.
type access struct {
	// mode has the permission bits as chmod(2) takes them.
	mode uint32
	// group is the owning group; -1 leaves it.
	group int
}

func accessOf(pod *v1.Pod, e *v1.EmptyDirVolumeSource) access {
	a := access{mode: emptyDirMode, group: -1}
	if e.Mode != nil {
		a.mode = uint32(*e.Mode)
	}
	if sc := pod.Spec.SecurityContext; sc != nil && sc.FSGroup != nil {
		a.group = int(*sc.FSGroup)
		a.mode |= setGID | groupAccess
	}
	return a
}

func (m *Manager) setUpEmptyDir(pod *v1.Pod, v *v1.Volume) error {
	// The name is a directory's; those that begin with a dot are makeDir's.
	if v.Name == "" || strings.HasPrefix(v.Name, ".") || strings.ContainsAny(v.Name, "/\x00") {
		return errors.New("the name can't be that of a directory")
	}
	dir, access := m.emptyDir(pod.UID, v.Name), accessOf(pod, v.EmptyDir)
	switch v.EmptyDir.Medium {
	case v1.StorageMediumDefault:
		return makeDir(dir, access)
	case v1.StorageMediumMemory:
		return m.mountTmpfs(dir, access, memoryLimit(pod, v.EmptyDir))
	default:
		return fmt.Errorf("emptyDir.medium %s isn't supported yet", v.EmptyDir.Medium)
	}
}

// makeDir makes the directory with just that access, whatever the umask; one that is there is left as it is, since a container
// may have changed it. It appears under its name only when it is complete, so a crash in between leaves nothing half made.
func makeDir(dir string, access access) error {
	if _, err := os.Lstat(dir); err == nil {
		return nil
	} else if !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("look at the directory: %w", err)
	}
	parent := filepath.Dir(dir)
	if err := os.MkdirAll(parent, dirMode); err != nil {
		return fmt.Errorf("make the directory of emptyDirs: %w", err)
	}
	draft, err := os.MkdirTemp(parent, ".new-")
	if err != nil {
		return fmt.Errorf("make the directory: %w", err)
	}
	if err := finish(draft, dir, access); err != nil {
		return errors.Join(err, os.Remove(draft))
	}
	return nil
}

func finish(draft, dir string, access access) error {
	if access.group >= 0 {
		if err := os.Chown(draft, -1, access.group); err != nil {
			return fmt.Errorf("give the directory to the fsGroup: %w", err)
		}
	}
	if err := chmod(draft, access.mode); err != nil {
		return fmt.Errorf("set the directory's mode: %w", err)
	}
	if err := os.Rename(draft, dir); err != nil {
		return fmt.Errorf("make the directory: %w", err)
	}
	return nil
}

// mountTmpfs mounts a tmpfs at dir, if nothing is mounted there. limit is in bytes; zero for the kernel's default, half of the
// node's memory.
func (m *Manager) mountTmpfs(dir string, access access, limit int64) error {
	// What is below the mount is seen by nobody.
	if err := os.MkdirAll(dir, dirMode); err != nil {
		return fmt.Errorf("make the mount point: %w", err)
	}
	mounted, err := m.mounter.IsMountPoint(dir)
	if err != nil {
		return fmt.Errorf("look whether the tmpfs is mounted: %w", err)
	}
	if mounted {
		return nil
	}
	options := []string{"mode=" + strconv.FormatUint(uint64(access.mode), 8)}
	if access.group >= 0 {
		options = append(options, "gid="+strconv.Itoa(access.group))
	}
	if limit > 0 {
		options = append(options, "size="+strconv.FormatInt(limit, 10))
	}
	if err := m.mounter.MountSensitiveWithoutSystemd("tmpfs", dir, "tmpfs", options, nil); err != nil {
		return fmt.Errorf("mount a tmpfs: %w", err)
	}
	return nil
}

// memoryLimit is the size of an emptyDir in memory: its sizeLimit, or what all containers may use together if that is less. Zero
// if neither is limited.
func memoryLimit(pod *v1.Pod, e *v1.EmptyDirVolumeSource) int64 {
	var limit int64
	if e.SizeLimit != nil {
		limit = e.SizeLimit.Value()
	}
	containers := containerMemory(pod)
	if containers > 0 && (limit <= 0 || containers < limit) {
		return containers
	}
	return max(limit, 0)
}

// containerMemory is the sum of the main containers' memory limits, or the largest of an init container if that is more; zero
// if one has none.
func containerMemory(pod *v1.Pod) int64 {
	var sum, largest int64
	for i := range pod.Spec.Containers {
		limit := pod.Spec.Containers[i].Resources.Limits.Memory().Value()
		if limit == 0 {
			return 0
		}
		sum += limit
	}
	for i := range pod.Spec.InitContainers {
		limit := pod.Spec.InitContainers[i].Resources.Limits.Memory().Value()
		if limit == 0 {
			return 0
		}
		largest = max(largest, limit)
	}
	return max(sum, largest)
}

// chmod sets the mode, with the bits as chmod(2) has them.
func chmod(path string, mode uint32) error {
	if err := unix.Chmod(path, mode); err != nil {
		return &os.PathError{Op: "chmod", Path: path, Err: err}
	}
	return nil
}
