package volume

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
	v1 "k8s.io/api/core/v1"
	"k8s.io/component-helpers/resource"
	"k8s.io/mount-utils"

	"github.com/podstream/podstream/internal/execsvc/setup/volume/ownership"
	"github.com/podstream/podstream/internal/failpoint"
)

// emptyDirMode is the default mode of an emptyDir, tmpfsMode that of one in memory: the kernel's, which the kubelet
// keeps.
const emptyDirMode, tmpfsMode = 0o777, 0o1777

// emptyDir is the plugin for emptyDir volumes on the node's disk, in memory, and in huge pages.
type emptyDir struct {
	plain
	mounter mount.Interface
}

// Name is part of Plugin.
func (emptyDir) Name() string { return "kubernetes.io/empty-dir" }

// Takes is part of Plugin.
func (emptyDir) Takes(spec *v1.Volume) bool { return spec.EmptyDir != nil }

// Source is part of Plugin.
func (emptyDir) Source(v Volume) Source { return Source{Path: v.Dir, Own: true} }

// SetUp is part of Plugin.
func (e emptyDir) SetUp(ctx context.Context, v Volume) error {
	source := v.Spec.EmptyDir
	switch {
	case source.Medium == v1.StorageMediumDefault:
		return makeDir(ctx, v.Dir, accessOf(v, emptyDirMode))
	case source.Medium == v1.StorageMediumMemory:
		return mountTmpfs(e.mounter, v.Dir, accessOf(v, tmpfsMode), memoryLimit(v))
	case strings.HasPrefix(string(source.Medium), string(v1.StorageMediumHugePages)):
		size, err := pageSize(v.Pod, source.Medium)
		if err != nil {
			return err
		}
		return mountHugePages(ctx, e.mounter, v.Dir, accessOf(v, emptyDirMode), size)
	default:
		return fmt.Errorf("emptyDir.medium %q is unknown", source.Medium)
	}
}

// access is the mode and group of a volume's directory.
type access struct {
	// mode has the permission bits of chmod(2), without those that the group adds.
	mode uint32
	// group is the pod's fsGroup; nil leaves the directory's group unchanged.
	group *int64
}

// accessOf returns the access of a volume; mode is the default.
func accessOf(v Volume, mode uint32) access {
	a := access{mode: mode, group: v.fsGroup()}
	if e := v.Spec.EmptyDir; e != nil && e.Mode != nil {
		a.mode = uint32(*e.Mode)
	}
	return a
}

// options returns the access as tmpfs options.
func (a access) options() []string {
	if a.group == nil {
		return []string{octal(a.mode)}
	}
	return []string{octal(ownership.Mode(a.mode, true, false)), "gid=" + strconv.FormatInt(*a.group, 10)}
}

func octal(mode uint32) string { return "mode=" + strconv.FormatUint(uint64(mode), 8) }

// makeDir creates the directory with exactly that access, whatever the umask. It leaves an existing one as it is,
// since a container may have changed it. The directory is renamed into place when it is complete, so a crash leaves
// no partial one.
func makeDir(ctx context.Context, dir string, access access) error {
	if _, err := os.Lstat(dir); err == nil {
		return nil
	} else if !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("stat the directory: %w", err)
	}
	if err := os.MkdirAll(filepath.Dir(dir), dirMode); err != nil {
		return fmt.Errorf("make the plugin's directory: %w", err)
	}
	draft, err := os.MkdirTemp(filepath.Dir(dir), ".new-")
	if err != nil {
		return fmt.Errorf("make the directory: %w", err)
	}
	if err := finish(ctx, draft, dir, access); err != nil {
		return errors.Join(err, os.Remove(draft))
	}
	return nil
}

func finish(ctx context.Context, draft, dir string, access access) error {
	if err := chmod(draft, access.mode); err != nil {
		return fmt.Errorf("set the directory's mode: %w", err)
	}
	if access.group != nil {
		if err := ownership.Set(ctx, ownership.Request{Dir: draft, Group: *access.group}); err != nil {
			return err
		}
	}
	if err := os.Rename(draft, dir); err != nil {
		return fmt.Errorf("make the directory: %w", err)
	}
	return nil
}

// noSwap is the option of a tmpfs that isn't swapped.
const noSwap = "noswap"

// mountTmpfs mounts a tmpfs at dir unless something is mounted there. limit is in bytes; zero means the kernel's
// default, half of the node's memory.
func mountTmpfs(mounter mount.Interface, dir string, access access, limit int64) error {
	options := access.options()
	if limit > 0 {
		options = append(options, "size="+strconv.FormatInt(limit, 10))
	}
	return mountOnce(mounter, dir, func() error {
		// Kernels before 6.4, and user namespaces, reject noswap.
		err := mounter.MountSensitiveWithoutSystemd("tmpfs", dir, "tmpfs", append([]string{noSwap}, options...), nil)
		if err != nil {
			err = mounter.MountSensitiveWithoutSystemd("tmpfs", dir, "tmpfs", options, nil)
		}
		if err != nil {
			return fmt.Errorf("mount a tmpfs: %w", err)
		}
		failpoint.Reached(failpoint.TmpfsMounted)
		return nil
	})
}

// mountOnce creates the mount point dir and calls doMount, unless something is mounted there.
func mountOnce(mounter mount.Interface, dir string, doMount func() error) error {
	// The mount hides the directory's mode.
	if err := os.MkdirAll(dir, dirMode); err != nil {
		return fmt.Errorf("make the mount point: %w", err)
	}
	mounted, err := mounter.IsMountPoint(dir)
	if err != nil {
		return fmt.Errorf("check the mount point: %w", err)
	}
	if mounted {
		return nil
	}
	return doMount()
}

// memoryLimit returns the size of a volume in memory: the least of its sizeLimit, the containers' memory limits
// together, and the node's allocatable memory. Zero: there is no limit.
func memoryLimit(v Volume) int64 {
	allocatable := v.Facts.Allocatable
	limits := []int64{podMemory(v.Pod), allocatable.Memory().Value()}
	if e := v.Spec.EmptyDir; e != nil && e.SizeLimit != nil {
		limits = append(limits, e.SizeLimit.Value())
	}
	var least int64
	for _, limit := range limits {
		if limit > 0 && (least == 0 || limit < least) {
			least = limit
		}
	}
	return least
}

// podMemory returns the pod's memory limit, as the kubelet computes it for the cgroup; zero if neither the pod nor
// all of its containers have one.
func podMemory(pod *v1.Pod) int64 {
	free := func(c v1.Container) bool { return c.Resources.Limits.Memory().IsZero() }
	containers := slices.Concat(pod.Spec.InitContainers, pod.Spec.Containers)
	whole := pod.Spec.Resources != nil && !pod.Spec.Resources.Limits.Memory().IsZero()
	if !whole && slices.ContainsFunc(containers, free) {
		return 0
	}
	limits := resource.PodLimits(pod, resource.PodResourcesOptions{})
	return limits.Memory().Value()
}

// chmod sets the mode, with the bits of chmod(2).
func chmod(path string, mode uint32) error {
	if err := unix.Chmod(path, mode); err != nil {
		return &os.PathError{Op: "chmod", Path: path, Err: err}
	}
	return nil
}
