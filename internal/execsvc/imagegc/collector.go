package imagegc

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/podstream/podstream/internal/execsvc/events"
	"github.com/podstream/podstream/internal/execsvc/node/nodestatus"
)

// period is the time between two rounds.
const period = 5 * time.Minute

// The reasons of what happens to the Node, as the kubelet has them.
const (
	freeDiskSpaceFailed = "FreeDiskSpaceFailed"
	imageGCFailed       = "ImageGCFailed"
	invalidDiskCapacity = "InvalidDiskCapacity"
)

// Images is the image service of the CRI.
type Images interface {
	ListImages(context.Context, *runtimeapi.ImageFilter) ([]*runtimeapi.Image, error)
	ImageStatus(ctx context.Context, image *runtimeapi.ImageSpec, verbose bool) (*runtimeapi.ImageStatusResponse, error)
	RemoveImage(context.Context, *runtimeapi.ImageSpec) error
}

// Containers is the runtime service of the CRI.
type Containers interface {
	ListContainers(context.Context, *runtimeapi.ContainerFilter) ([]*runtimeapi.Container, error)
}

// Config says which images may go.
type Config struct {
	Images     Images
	Containers Containers
	// Needed are the images of the pods that are here or are to be, by the names that those have for them. It is asked anew before each removal.
	Needed func() []string
	// Settled tells whether all pods are known that are to be here. Until it does, but for five minutes at most, no image goes. Nil: they are.
	Settled func() bool
	// Dir tells a directory on the disk of images, from the runtime's ImageFsInfo.
	Dir func(context.Context) (string, error)

	// High and Low are imageGCHighThresholdPercent and imageGCLowThresholdPercent: from how much of the disk on images go, and down to how much. At
	// 100 none go for that. There are no defaults here: zero means what it says.
	High, Low int
	// MinAge is imageMinimumGCAge: for how long an image stays at least after it came. Zero: not at all.
	MinAge time.Duration
	// MaxAge is imageMaximumGCAge: after how long without use an image goes. Zero: never for that.
	MaxAge time.Duration

	// Event is told what happens to the Node. Nil: nobody is.
	Event func(nodestatus.Event)
	// Metrics is where kubelet_image_garbage_collected_total is registered. Nil: nowhere.
	Metrics prometheus.Registerer
	// Logger gets a line for each image that is removed, and for trouble when it begins and when it ends. Nil discards.
	Logger *slog.Logger
}

// Collector removes images that nobody uses.
type Collector struct {
	cfg     Config
	log     *slog.Logger
	removed *prometheus.CounterVec
	begun   time.Time
	// stat tells of the file system that a path is on.
	stat func(path string) (disk, error)

	// mu is held during a round. known are the images of the last one, by ID; nil before the first. failed is set if it went wrong.
	mu     sync.Mutex
	known  map[string]record
	failed bool
}

// New returns a Collector that hasn't looked yet.
func New(cfg Config) *Collector {
	if cfg.Settled == nil {
		cfg.Settled = func() bool { return true }
	}
	if cfg.Event == nil {
		cfg.Event = func(nodestatus.Event) {}
	}
	if cfg.Logger == nil {
		cfg.Logger = slog.New(slog.DiscardHandler)
	}
	c := &Collector{
		cfg: cfg, log: cfg.Logger, begun: time.Now(), stat: statfs,
		removed: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "kubelet_image_garbage_collected_total", Help: "Images that were removed as nobody used them, by why: space or age.",
		}, []string{"reason"}),
	}
	if cfg.Metrics != nil {
		cfg.Metrics.MustRegister(c.removed)
	}
	return c
}

// Run collects until ctx ends. At the start it only looks: pods that want an image may not be known yet.
func (c *Collector) Run(ctx context.Context) {
	ticker := time.NewTicker(period)
	defer ticker.Stop()
	for round := c.look; ; round = c.collect {
		c.tell(ctx, c.locked(ctx, round))
		select {
		case <-ticker.C:
		case <-ctx.Done():
			return
		}
	}
}

// RemoveUnused removes all images that nobody uses, but those that came lately.
func (c *Collector) RemoveUnused(ctx context.Context) error {
	return c.locked(ctx, func(ctx context.Context, now time.Time) error {
		r, err := c.begin(ctx, now)
		if err != nil {
			return err
		}
		_, err = c.free(ctx, r, math.MaxInt64)
		return err
	})
}

func (c *Collector) locked(ctx context.Context, round func(context.Context, time.Time) error) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return round(ctx, time.Now())
}

// tell tells how a round went: trouble in the log when it begins and ends, and as an event each time but the first, as in the kubelet.
func (c *Collector) tell(ctx context.Context, err error) {
	switch {
	case ctx.Err() != nil:
		return
	case err == nil && c.failed:
		c.log.Info("unused images can be removed again, as far as that is necessary")
	case err != nil && c.failed:
		c.cfg.Event(nodestatus.Event{Type: events.Warning, Reason: imageGCFailed, Message: err.Error()})
	case err != nil:
		c.log.Warn("unused images couldn't be removed as they should be; it is tried again", "error", err, "every", period)
	}
	c.failed = err != nil
}

// look only finds out which images there are.
func (c *Collector) look(ctx context.Context, now time.Time) error {
	_, err := c.begin(ctx, now)
	return err
}

// collect is a round: old images go, and then as many as have to for the disk.
func (c *Collector) collect(ctx context.Context, now time.Time) error {
	r, err := c.begin(ctx, now)
	if err != nil || c.cfg.High >= 100 && c.cfg.MaxAge == 0 {
		return err
	}
	old := c.freeOld(ctx, r)
	if c.cfg.High >= 100 {
		return old
	}
	dir, err := c.cfg.Dir(ctx)
	if err != nil {
		return errors.Join(old, fmt.Errorf("ask where images are: %w", err))
	}
	has, err := c.stat(dir)
	if err != nil {
		return errors.Join(old, err)
	}
	if has.bytes <= 0 {
		err := errors.New("invalid capacity 0 on image filesystem")
		c.cfg.Event(nodestatus.Event{Type: events.Warning, Reason: invalidDiskCapacity, Message: err.Error()})
		return errors.Join(old, err)
	}
	excess := has.excess(c.cfg.High, c.cfg.Low)
	if excess <= 0 {
		return old
	}
	c.log.Info("the disk of images is fuller than the high threshold", "directory", dir, "high", c.cfg.High, "low", c.cfg.Low, "bytes_to_free", excess)
	freed, err := c.free(ctx, r, excess)
	if err == nil && freed < excess {
		err = fmt.Errorf("Failed to garbage collect required amount of images. Attempted to free %d bytes, but only found %d bytes eligible to free.", //nolint:staticcheck,revive // It is the kubelet's.
			excess, freed)
		c.cfg.Event(nodestatus.Event{Type: events.Warning, Reason: freeDiskSpaceFailed, Message: err.Error()})
	}
	return errors.Join(old, err)
}
