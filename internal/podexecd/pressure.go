package podexecd

import (
	"context"
	"encoding/json"
	"errors"

	"golang.org/x/sync/errgroup"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podstream/podstream/internal/execconfig"
	"github.com/podstream/podstream/internal/execsvc/imagegc"
	"github.com/podstream/podstream/internal/execsvc/node/nodestatus"
	"github.com/podstream/podstream/internal/execsvc/pressure"
	"github.com/podstream/podstream/internal/execsvc/status"
	"github.com/podstream/podstream/internal/execsvc/storage"
)

// guard sees to it that the node doesn't run out of memory, disk, files and processes.
type guard struct {
	*pressure.Manager
	// limits is not run on a node that doesn't hold pods to their limits of the disk.
	limits *storage.Watcher
	limit  bool
	images *imagegc.Collector
}

// thresholdsOf are those at which pods have to go.
func thresholdsOf(s *execconfig.Settings) ([]pressure.Threshold, error) {
	graces := map[string]string{}
	for signal, grace := range s.EvictionSoftGracePeriod {
		graces[signal] = grace.String()
	}
	return pressure.Parse(pressure.Settings{Hard: s.EvictionHard, Soft: s.EvictionSoft, SoftGrace: graces, MinimumReclaim: s.EvictionMinimumReclaim})
}

// newGuard comes before the agent, which it asks only once it runs. dir is where the pods' emptyDirs are.
func newGuard(ctx context.Context, n *node, c *connection, known *facts, dir func(pod *v1.Pod, volume string) string) *guard {
	s := n.opts.settings
	evictions := pressure.NewEvictions(n.registry)
	pods := func() []*v1.Pod { return n.agent.Evictable() }
	g := &guard{limit: s.LocalStorageCapacityIsolation}
	g.limits = storage.New(storage.Config{
		Pods: pods, Evict: func(uid types.UID, why status.Failure) bool { return n.agent.EvictOverLimit(uid, why) }, Evictions: evictions, Dir: dir,
		LogsDir: s.PodLogsDir, Stats: c.runtime, Logger: n.log,
	})
	sandbox := c.sandboxImages(ctx)
	g.images = imagegc.New(imagegc.Config{
		Images: c.images, Containers: c.runtime, Needed: func() []string { return append(n.agent.Images(), sandbox()...) }, Settled: func() bool { return n.agent.Settled() },
		Dir: c.imageDir, High: s.ImageGC.HighThreshold, Low: s.ImageGC.LowThreshold, MinAge: s.ImageGC.MinAge, MaxAge: s.ImageGC.MaxAge,
		Event: n.cluster.event, Metrics: n.registry, Logger: n.log,
	})
	g.Manager = pressure.New(pressure.Config{
		Thresholds: n.thresholds, Transition: s.EvictionPressureTransitionPeriod, MaxGrace: int64(s.EvictionMaxPodGracePeriod),
		RootDir: n.opts.RootDir, ImageDir: c.imageDir, PodsCgroup: known.boundedCgroup(s), Pods: pods,
		Evict: func(uid types.UID, grace int64, why status.Failure) bool { return n.agent.Evict(uid, grace, why) },
		Gone:  func(uid types.UID) bool { return n.agent.Gone(uid) }, Stats: c.runtime, Disk: g.limits.Measure, Dir: dir, LogsDir: s.PodLogsDir,
		DeadContainers: func(ctx context.Context) error { return n.agent.RemoveDead(ctx) }, UnusedImages: g.images.RemoveUnused,
		Changed: func() { n.agent.PressureChanged(); n.cluster.wake() },
		Event:   n.cluster.event, Evictions: evictions, Logger: n.log,
	})
	return g
}

// run has the group watch over the node until ctx ends.
func (g *guard) run(ctx context.Context, group *errgroup.Group) {
	group.Go(func() error { g.Manager.Run(ctx); return nil })
	group.Go(func() error { g.images.Run(ctx); return nil })
	if g.limit {
		group.Go(func() error { g.limits.Run(ctx); return nil })
	}
}

// imageDir is a directory on the disk of images.
func (c *connection) imageDir(ctx context.Context) (string, error) {
	info, err := c.images.ImageFsInfo(ctx)
	if err != nil {
		return "", err
	}
	for _, fs := range info.GetImageFilesystems() {
		if dir := fs.GetFsId().GetMountpoint(); dir != "" {
			return dir, nil
		}
	}
	return "", errors.New("the container runtime doesn't tell")
}

// sandboxImages gives the image of sandboxes, if the runtime tells, which it is asked until it has answered. Runtimes that pin it needn't tell;
// containerd before 1.7 doesn't pin it, and tells in its configuration. One goroutine at a time may call what it returns.
func (c *connection) sandboxImages(ctx context.Context) func() []string {
	answered, images := false, []string(nil)
	return func() []string {
		if answered {
			return images
		}
		status, err := c.runtime.Status(ctx, true)
		if err != nil {
			return nil
		}
		answered = true
		var config struct {
			SandboxImage string `json:"sandboxImage"`
		}
		if json.Unmarshal([]byte(status.GetInfo()["config"]), &config) == nil && config.SandboxImage != "" {
			images = []string{config.SandboxImage}
		}
		return images
	}
}

// event tells the cluster what happens to the Node.
func (c *cluster) event(e nodestatus.Event) {
	if c != nil {
		c.sink.RecordNode(c.opts.node, e.Type, e.Reason, e.Message)
	}
}

// wake has the Node's status looked at now.
func (c *cluster) wake() {
	if c == nil {
		return
	}
	if n := c.node.Load(); n != nil {
		n.Wake()
	}
}
