package stats

import (
	"context"
	"errors"
	"path/filepath"
	"slices"
	"strings"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	statsapi "k8s.io/kubelet/pkg/apis/stats/v1alpha1"

	"github.com/podstream/podstream/internal/execsvc/reclaim/diskusage"
	"github.com/podstream/podstream/internal/execsvc/reclaim/volumeusage"
)

// patience is how long a request waits for the counting of files. After that it gets the last values of pods that
// aren't counted yet.
const patience = time.Second

// diskReading is the pods' use of disks. It is immutable.
type diskReading struct{ pods map[types.UID]podDisk }

// podDisk is one pod's use of disks.
type podDisk struct {
	volumes []namedVolume
	// logs are by container; rest is the pod's /etc/hosts and termination messages.
	logs map[string]*volume
	rest []*volume
	// persistent are the volumes that aren't on a disk of pods: claims, and others of CSI drivers.
	persistent []statsapi.VolumeStats
}

type namedVolume struct {
	*volume
	name string
}

// diskUsage returns the last use of disks by pods. Each pod's has its own age, so that a large pod doesn't delay the
// others.
func (s *Stats) diskUsage(ctx context.Context) *diskReading {
	r, err := s.disk.get(ctx, maxAge)
	if err != nil && r == nil {
		return &diskReading{}
	}
	return r
}

// readDisk counts the files of all pods whose values are too old.
func (s *Stats) readDisk(ctx context.Context) (*diskReading, error) {
	r := &diskReading{pods: map[types.UID]podDisk{}}
	uids, err := s.cfg.PodDirs.List()
	var pods []*v1.Pod
	for _, uid := range uids {
		if shown, ok := s.cfg.Board.Get(uid); ok && shown.Object != nil {
			pods = append(pods, shown.Object)
		}
	}
	counting, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	counted := s.cfg.Files.Counts(counting, pods, diskAge)
	var measured map[types.UID]map[string]volumeusage.Usage
	if s.cfg.Volumes != nil {
		measured = s.cfg.Volumes.Usage()
	}
	systems := map[string]fileSystem{}
	for _, pod := range pods {
		used := counted[pod.UID]
		on := s.podDisk(pod, &used, systems)
		on.persistent = persistent(pod, measured[pod.UID])
		r.pods[pod.UID] = on
	}
	return r, errors.Join(err, ctx.Err())
}

// podDisk adds the file system to each value. All directories of pods in one place are on one file system, except those in
// memory.
func (s *Stats) podDisk(pod *v1.Pod, used *diskusage.Usage, systems map[string]fileSystem) podDisk {
	podsDir := s.cfg.PodDirs.Root(pod.UID)
	p := podDisk{logs: map[string]*volume{}}
	for name, dir := range memoryVolumes(pod) {
		on, err := s.statfs(filepath.Join(podsDir, string(pod.UID), dir))
		if err == nil {
			v := &volume{fileSystem: on, at: s.cfg.Clock.Now(), bytesUsed: new(less(on.bytes, on.free)), inodes: new(less(on.files, on.filesFree))}
			p.volumes = append(p.volumes, namedVolume{v, name})
		}
	}
	if used.At.IsZero() {
		return p
	}
	figure := func(dir string, f diskusage.Figure) *volume {
		on, known := systems[dir]
		if !known {
			on, _ = s.statfs(dir)
			systems[dir] = on
		}
		return &volume{fileSystem: on, at: used.At, bytesUsed: new(uint64(f.Bytes)), inodes: new(uint64(f.Inodes))} //nolint:gosec // Sizes.
	}
	for _, kind := range []map[string]diskusage.Figure{used.EmptyDirs, used.Others} {
		for name, f := range kind {
			if name != "" {
				p.volumes = append(p.volumes, namedVolume{figure(podsDir, f), name})
			}
		}
	}
	slices.SortFunc(p.volumes, func(a, b namedVolume) int { return strings.Compare(a.name, b.name) })
	for name, f := range used.Logs {
		if name == "" {
			p.rest = append(p.rest, figure(s.cfg.LogsDir, f))
			continue
		}
		p.logs[name] = figure(s.cfg.LogsDir, f)
	}
	rest := used.Hosts
	for _, f := range used.Messages {
		rest.Bytes += f.Bytes
		rest.Inodes += f.Inodes
	}
	p.rest = append(p.rest, figure(podsDir, rest))
	return p
}

// memoryVolumes returns the pod's emptyDirs with file systems of their own, and their directories in the pod's.
func memoryVolumes(pod *v1.Pod) map[string]string {
	dirs := map[string]string{}
	for _, v := range pod.Spec.Volumes {
		if v.EmptyDir != nil && v.EmptyDir.Medium != v1.StorageMediumDefault {
			dirs[v.Name] = filepath.Join("volumes", "kubernetes.io~empty-dir", v.Name)
		}
	}
	return dirs
}
