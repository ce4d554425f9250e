package pressure

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/podstream/podstream/internal/execsvc/criconfig"
)

// Stats tells what containers use; it is the container runtime.
type Stats interface {
	ListContainerStats(context.Context, *runtimeapi.ContainerStatsFilter) ([]*runtimeapi.ContainerStats, error)
	ListPodSandboxStats(context.Context, *runtimeapi.PodSandboxStatsFilter) ([]*runtimeapi.PodSandboxStats, error)
}

// measure finds out what the pods use of what the signal is about. What can't be found out is missing, and said in the error.
func (m *Manager) measure(ctx context.Context, pods []*v1.Pod, signal Signal, dedicated bool) (map[types.UID]usage, error) {
	switch kinds[signal].resource {
	case v1.ResourceMemory:
		return m.memory(ctx)
	case pids:
		return m.processes(ctx)
	case inodes:
		return m.inodes(ctx, pods, onDisk(signal, dedicated))
	}
	return m.disk(ctx, pods, onDisk(signal, dedicated))
}

// parts are those of a pod's files that are on a file system.
type parts struct{ layers, rest bool }

// onDisk are the parts that count for a signal: writable layers are where images are, and all else is on nodefs.
func onDisk(signal Signal, dedicated bool) parts {
	image := signal == ImageFsAvailable || signal == ImageFsInodesFree
	return parts{layers: image || !dedicated, rest: !image || !dedicated}
}

// memory is the working set of each pod's containers.
func (m *Manager) memory(ctx context.Context) (map[types.UID]usage, error) {
	stats, err := m.cfg.Stats.ListContainerStats(ctx, nil)
	if err != nil {
		return nil, fmt.Errorf("ask the runtime what containers use: %w", err)
	}
	out := map[types.UID]usage{}
	for _, s := range stats {
		if set := s.GetMemory().GetWorkingSetBytes(); set != nil {
			add(out, s, bounded(set.GetValue()))
		}
	}
	return out, nil
}

// add counts what a container uses.
func add(to map[types.UID]usage, s *runtimeapi.ContainerStats, n int64) {
	uid := types.UID(s.GetAttributes().GetLabels()[criconfig.PodUIDLabel])
	u, known := to[uid]
	if !known {
		u.containers = map[string]int64{}
	}
	u.pod += n
	u.containers[s.GetAttributes().GetMetadata().GetName()] += n
	to[uid] = u
}

func (m *Manager) processes(ctx context.Context) (map[types.UID]usage, error) {
	stats, err := m.cfg.Stats.ListPodSandboxStats(ctx, nil)
	if err != nil {
		return nil, fmt.Errorf("ask the runtime what pods use: %w", err)
	}
	out := map[types.UID]usage{}
	for _, s := range stats {
		if count := s.GetLinux().GetProcess().GetProcessCount(); count != nil {
			uid := types.UID(s.GetAttributes().GetMetadata().GetUid())
			out[uid] = usage{pod: out[uid].pod + bounded(count.GetValue())}
		}
	}
	return out, nil
}

func (m *Manager) disk(ctx context.Context, pods []*v1.Pod, of parts) (map[types.UID]usage, error) {
	out := map[types.UID]usage{}
	var errs []error
	for _, pod := range pods {
		has, err := m.cfg.Disk(ctx, pod)
		if err != nil {
			errs = append(errs, fmt.Errorf("pod %s/%s: %w", pod.Namespace, pod.Name, err))
		}
		u := usage{containers: map[string]int64{}}
		// What is counted in spite of an error is the least that it can be.
		count := func(name string, n int64) { u.pod += n; u.containers[name] += n }
		if of.rest {
			for _, n := range has.Volumes {
				u.pod += n
			}
			for name, n := range has.Logs {
				count(name, n)
			}
		}
		if of.layers {
			for name, n := range has.Layers {
				count(name, n)
			}
		}
		if err == nil || u.pod > 0 {
			out[pod.UID] = u
		}
	}
	return out, errors.Join(errs...)
}

// inodes are the files of the writable layers, as the runtime tells, and those in emptyDirs and of logs, which are counted.
func (m *Manager) inodes(ctx context.Context, pods []*v1.Pod, of parts) (map[types.UID]usage, error) {
	out := map[types.UID]usage{}
	if of.layers {
		stats, err := m.cfg.Stats.ListContainerStats(ctx, nil)
		if err != nil {
			return nil, fmt.Errorf("ask the runtime what containers use: %w", err)
		}
		for _, s := range stats {
			if files := s.GetWritableLayer().GetInodesUsed(); files != nil {
				add(out, s, bounded(files.GetValue()))
			}
		}
	}
	if !of.rest {
		return out, nil
	}
	for _, pod := range pods {
		left := m.cfg.MaxFiles
		dirs := []string{criconfig.LogDir(m.cfg.LogsDir, pod.Namespace, pod.Name, pod.UID)}
		for _, volume := range pod.Spec.Volumes {
			if dir := volume.EmptyDir; dir != nil && dir.Medium == v1.StorageMediumDefault {
				dirs = append(dirs, m.cfg.Dir(pod, volume.Name))
			}
		}
		for _, dir := range dirs {
			left = countFiles(ctx, dir, left)
		}
		u := out[pod.UID]
		u.pod += int64(m.cfg.MaxFiles - left)
		out[pod.UID] = u
	}
	return out, ctx.Err()
}

// countFiles takes the directory and the files below it from what is left to count, until nothing is. It follows no links.
func countFiles(ctx context.Context, dir string, left int) int {
	if _, err := os.Lstat(dir); err != nil || left == 0 {
		return left
	}
	left--
	for dirs := []string{dir}; len(dirs) > 0; {
		at := dirs[len(dirs)-1]
		dirs = dirs[:len(dirs)-1]
		left = eachEntry(ctx, at, left, func(name string) { dirs = append(dirs, filepath.Join(at, name)) })
	}
	return left
}

// entriesAtOnce is how many are read of a directory, which may have more than there is memory for.
const entriesAtOnce = 512

// eachEntry takes those of a directory from what is left, and calls found with the directories among them.
func eachEntry(ctx context.Context, dir string, left int, found func(name string)) int {
	f, err := os.OpenFile(dir, os.O_RDONLY|unix.O_NOFOLLOW|unix.O_DIRECTORY, 0)
	if err != nil {
		// What can't be read isn't counted: the container may be removing it.
		return left
	}
	defer func() { _ = f.Close() }()
	for left > 0 && ctx.Err() == nil {
		entries, err := f.ReadDir(min(left, entriesAtOnce))
		left -= len(entries)
		for _, e := range entries {
			if e.IsDir() {
				found(e.Name())
			}
		}
		if err != nil {
			return left
		}
	}
	return left
}
