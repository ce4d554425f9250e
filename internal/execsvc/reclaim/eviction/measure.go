package eviction

import (
	"context"
	"errors"
	"fmt"
	"math"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/podstream/podstream/internal/execsvc/pod/podmeta"
	"github.com/podstream/podstream/internal/execsvc/reclaim/diskusage"
	"github.com/podstream/podstream/internal/execsvc/reclaim/localstorage"
)

// Stats has the usage of containers and pods; it is the container runtime.
type Stats interface {
	ListContainerStats(context.Context, *runtimeapi.ContainerStatsFilter) ([]*runtimeapi.ContainerStats, error)
	ListPodSandboxStats(context.Context, *runtimeapi.PodSandboxStatsFilter) ([]*runtimeapi.PodSandboxStats, error)
}

// measure returns the pods' usage of the signal's resource. A pod whose usage is unknown is absent, with the reason
// in the error.
func (m *Manager) measure(ctx context.Context, pods []*v1.Pod, signal Signal, disks layout) (map[types.UID]usage, error) {
	switch signals[signal].resource {
	case v1.ResourceMemory:
		return m.memory(ctx)
	case pids:
		return m.processes(ctx)
	case inodes:
		return m.files(ctx, pods, disks.on(signal), inodesOf)
	}
	return m.files(ctx, pods, disks.on(signal), bytesOf)
}

// memory returns the working sets of the pods' containers.
func (m *Manager) memory(ctx context.Context) (map[types.UID]usage, error) {
	stats, err := m.cfg.Stats.ListContainerStats(ctx, nil)
	if err != nil {
		return nil, fmt.Errorf("get container stats: %w", err)
	}
	out := map[types.UID]usage{}
	for _, s := range stats {
		if set := s.GetMemory().GetWorkingSetBytes(); set != nil {
			add(out, s, bounded(set.GetValue()))
		}
	}
	return out, nil
}

// add adds a container's usage.
func add(to map[types.UID]usage, s *runtimeapi.ContainerStats, n int64) {
	uid := types.UID(s.GetAttributes().GetLabels()[podmeta.PodUIDLabel])
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
		return nil, fmt.Errorf("get pod sandbox stats: %w", err)
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

// uncountable is the usage of a pod with more files than can be counted. It exceeds that of any other pod, and sums
// with it don't overflow.
const uncountable = math.MaxInt64 >> 2

// files returns the bytes or inodes, as size selects, of the pods' files. After an error, or before a count has
// ended, the known part is the usage.
func (m *Manager) files(ctx context.Context, pods []*v1.Pod, of contents, size func(diskusage.Figure) int64) (map[types.UID]usage, error) {
	counting, cancel := context.WithTimeout(ctx, countTimeout)
	defer cancel()
	measured := m.cfg.DiskUsage(counting, pods, period)
	out := map[types.UID]usage{}
	var errs []error
	for _, pod := range pods {
		has := measured[pod.UID]
		u, complete, err := filesOf(&has, of, size)
		if err != nil {
			errs = append(errs, fmt.Errorf("pod %s/%s: %w", pod.Namespace, pod.Name, err))
		}
		if complete || u.pod > 0 {
			out[pod.UID] = u
		}
	}
	return out, errors.Join(errs...)
}

// filesOf returns a pod's usage. complete reports whether all of it is known.
func filesOf(has *localstorage.Usage, of contents, size func(diskusage.Figure) int64) (u usage, complete bool, err error) {
	u = usage{containers: map[string]int64{}}
	add := func(all map[string]diskusage.Figure) {
		for name, f := range all {
			u.pod += size(f)
			u.containers[name] += size(f)
		}
	}
	complete = true
	if of.podFiles {
		complete, err = !has.At.IsZero() && has.Usage.Err == nil, has.Usage.Err
		add(has.Logs)
		add(has.Messages)
		u.pod = max(size(has.Usage.Total()), size(has.Unfinished))
		if has.Uncountable {
			u.pod = uncountable
		}
	}
	if of.writableLayers {
		complete, err = complete && has.LayersErr == nil, errors.Join(err, has.LayersErr)
		add(has.Layers)
	}
	return u, complete, err
}

func bytesOf(f diskusage.Figure) int64 { return f.Bytes }

func inodesOf(f diskusage.Figure) int64 { return f.Inodes }
