package podexecd

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"golang.org/x/sync/errgroup"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/podstream/podstream/internal/execconfig"
	"github.com/podstream/podstream/internal/execsvc/cri/image"
	"github.com/podstream/podstream/internal/execsvc/machine/memcg"
	"github.com/podstream/podstream/internal/execsvc/pod/observed"
	"github.com/podstream/podstream/internal/execsvc/reclaim/diskusage"
	"github.com/podstream/podstream/internal/execsvc/reclaim/eviction"
	"github.com/podstream/podstream/internal/execsvc/reclaim/imagegc"
	"github.com/podstream/podstream/internal/execsvc/reclaim/localstorage"
	"github.com/podstream/podstream/internal/execsvc/reclaim/logrotation"
)

// reclaimer keeps the node from running out of memory, disk, files and processes.
type reclaimer struct {
	evictions *eviction.Manager
	// limits is nil on a node that doesn't enforce the pods' limits of ephemeral storage.
	limits *localstorage.Manager
	images *imagegc.Collector
	// files counts for limits and evictions, and for the node's API.
	files *diskusage.Meter
	// memory reports when memory is short. Nil: it doesn't.
	memory *memcg.Notifier
	logs   *logrotation.Manager
}

// thresholdsOf returns the eviction thresholds.
func thresholdsOf(s *execconfig.Settings) ([]eviction.Threshold, error) {
	graces := map[string]string{}
	for signal, grace := range s.EvictionSoftGracePeriod {
		graces[signal] = grace.String()
	}
	return eviction.Parse(eviction.Settings{Hard: s.EvictionHard, Soft: s.EvictionSoft, SoftGracePeriod: graces, MinimumReclaim: s.EvictionMinimumReclaim})
}

// newReclaimer returns a reclaimer that ends pods of n.agent and sets conditions.
func newReclaimer(n *node, c *connection, known *facts, conditions *eviction.Conditions, puller *image.Puller) *reclaimer {
	s := n.opts.settings
	total := eviction.NewEvictions(n.registry)
	r := &reclaimer{files: diskusage.New(diskusage.Config{PodDirs: n.podDirs, LogsDir: s.PodLogsDir})}
	limits := localstorage.New(localstorage.Config{
		Pods: n.agent.Evictable, Evict: n.agent.EvictOverLimit, Evictions: total, Meter: r.files, Stats: c.runtime, Logger: n.log,
	})
	if s.LocalStorageCapacityIsolation {
		r.limits = limits
	}
	sandbox := c.sandboxImages()
	r.images = imagegc.New(imagegc.Config{
		Images: c.images, Containers: c.runtime, SourcesReady: n.agent.Settled, Unready: n.agent.Unready, Listing: n.pulls.Listing,
		RequiredImages: func(ctx context.Context) ([]string, error) {
			of, err := sandbox(ctx)
			return append(n.agent.Images(), of...), err
		},
		Pulling:  puller.Pulling,
		ImageDir: c.imageDir, HighThresholdPercent: s.ImageGC.HighThreshold, LowThresholdPercent: s.ImageGC.LowThreshold,
		MinAge: s.ImageGC.MinAge, MaxAge: s.ImageGC.MaxAge, Event: n.recordNodeEvent, Metrics: n.registry, Logger: n.log,
	})
	r.logs = logrotation.New(logrotation.Config{
		Runtime: c.runtime, Pods: func() []*observed.Pod { found, _ := n.agent.Found(); return found }, LogsDir: s.PodLogsDir,
		MaxSize: s.LogRotation.MaxBytes, MaxFiles: s.LogRotation.MaxFiles, Workers: s.LogRotation.Workers, Interval: s.LogRotation.Interval,
		Logger: n.log,
	})
	cfg := eviction.Config{
		Thresholds: n.thresholds, PressureTransitionPeriod: s.EvictionPressureTransitionPeriod, MaxPodGracePeriod: int64(s.EvictionMaxPodGracePeriod),
		RootDir: n.opts.kubeletDir, PreviousDir: n.podDirs.Previous, Disks: c.disks, PodsCgroup: known.boundedCgroup(s), Pods: n.agent.Evictable, Evict: n.agent.Evict,
		Gone: n.agent.Gone, Stats: c.runtime, DiskUsage: limits.Measure, RemoveExitedContainers: n.agent.RemoveDead,
		RemoveUnusedImages: r.images.RemoveUnused, Conditions: conditions,
		PressureChanged: func() { n.agent.PressureChanged(); n.wakeNode() },
		Event:           n.recordNodeEvent, Evictions: total, Metrics: n.registry, Logger: n.log,
	}
	switch {
	case s.KernelMemcgNotification && known.info.CgroupV2:
		n.log.Info("kernelMemcgNotification has no effect with cgroup v2, as with the kubelet")
	case s.KernelMemcgNotification:
		r.memory = memcg.New()
		cfg.Notifier = r.memory
	}
	r.evictions = eviction.New(cfg)
	return r
}

// run has the group watch the node's resources until ctx ends.
func (r *reclaimer) run(ctx context.Context, group *errgroup.Group) {
	group.Go(func() error {
		r.evictions.Run(ctx)
		if r.memory != nil {
			r.memory.Close()
		}
		return nil
	})
	group.Go(func() error { r.images.Run(ctx); return nil })
	group.Go(func() error { r.files.Run(ctx); return nil })
	group.Go(func() error { r.logs.Run(ctx); return nil })
	if r.limits != nil {
		group.Go(func() error { r.limits.Run(ctx); return nil })
	}
}

// disks returns directories on the disks of images and of writable layers.
func (c *connection) disks(ctx context.Context) (eviction.Disks, error) {
	info, err := c.images.ImageFsInfo(ctx)
	if err != nil {
		return eviction.Disks{}, err
	}
	return disksOf(info)
}

// disksOf returns the first directory of each kind. Runtimes that can't have writable layers apart from images, such as
// containerd, report none of containers.
func disksOf(info *runtimeapi.ImageFsInfoResponse) (eviction.Disks, error) {
	first := func(all []*runtimeapi.FilesystemUsage) string {
		for _, fs := range all {
			if dir := fs.GetFsId().GetMountpoint(); dir != "" {
				return dir
			}
		}
		return ""
	}
	disks := eviction.Disks{Images: first(info.GetImageFilesystems()), Containers: first(info.GetContainerFilesystems())}
	if disks.Images == "" {
		return eviction.Disks{}, errors.New("the container runtime doesn't report them")
	}
	return disks, nil
}

// imageDir returns a directory on the images' disk.
func (c *connection) imageDir(ctx context.Context) (string, error) {
	disks, err := c.disks(ctx)
	return disks.Images, err
}

// sandboxImages returns a function that returns the image of sandboxes if the runtime reports it, and the last one
// while the runtime doesn't answer; an error if it never has. Runtimes that pin it needn't report it; containerd before 1.7
// doesn't pin it, and reports it in its configuration. One goroutine at a time may call the function.
func (c *connection) sandboxImages() func(context.Context) ([]string, error) {
	var (
		images []string
		known  bool
	)
	return func(ctx context.Context) ([]string, error) {
		status, err := c.runtime.Status(ctx, true)
		if err != nil && known {
			return images, nil
		}
		if err != nil {
			return nil, fmt.Errorf("get the image of sandboxes: %w", err)
		}
		images, known = nil, true
		var config struct {
			SandboxImage string `json:"sandboxImage"`
		}
		if json.Unmarshal([]byte(status.GetInfo()["config"]), &config) == nil && config.SandboxImage != "" {
			images = []string{config.SandboxImage}
		}
		return images, nil
	}
}
