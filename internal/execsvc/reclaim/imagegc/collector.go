package imagegc

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/podstream/podstream/internal/execsvc/decide/nodestatus"
	"github.com/podstream/podstream/internal/execsvc/pod/events"
	"github.com/podstream/podstream/internal/kubeletmetrics"
)

// period is the time between two rounds.
const period = 5 * time.Minute

// The kubelet's reasons of the Node's events.
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

// Config configures a Collector.
type Config struct {
	Images     Images
	Containers Containers
	// RequiredImages returns the images that the node's pods require, by the names in their specs. It is called again
	// before each removal. With an error nothing is removed.
	RequiredImages func(context.Context) ([]string, error)
	// Pulling returns the names of the images that are being pulled, with their registries. They are required too. Nil:
	// none are.
	Pulling func() []string
	// SourcesReady reports whether all pods of the node are known. Until it does, but for five minutes at most, no
	// image is removed. Prune waits for it in any case. Nil means that they are.
	SourcesReady func() bool
	// Unready returns the sources that SourcesReady waits for, for the error of Prune. May be nil.
	Unready func() []string
	// Listing is called before the images are listed in each round of Run, and its result with all images, if they can
	// be listed: pullrecord.Records. Nil: it isn't called.
	Listing func() func([]*runtimeapi.Image)
	// ImageDir returns a directory on imagefs, from the runtime's ImageFsInfo.
	ImageDir func(context.Context) (string, error)

	// HighThresholdPercent and LowThresholdPercent are imageGCHighThresholdPercent and imageGCLowThresholdPercent:
	// the disk usage above which images are removed, and the usage at which that stops. A high threshold of 100
	// disables it. There are no defaults here: zero is zero percent.
	HighThresholdPercent, LowThresholdPercent int
	// MinAge is imageMinimumGCAge: how long an image stays after it was first detected.
	MinAge time.Duration
	// MaxAge is imageMaximumGCAge: how long an image stays unused. Zero disables it.
	MaxAge time.Duration

	// Event receives events of the Node. It may be nil.
	Event func(nodestatus.Event)
	// Metrics registers kubelet_image_garbage_collected_total. It may be nil.
	Metrics prometheus.Registerer
	// Logger receives a line for each removed image, and for failures when they start and end. Nil discards them.
	Logger *slog.Logger
}

// Collector removes unused images.
type Collector struct {
	cfg     Config
	log     *slog.Logger
	removed *prometheus.CounterVec
	started time.Time
	// stat returns the size of a path's file system.
	stat func(path string) (disk, error)

	// turn has room for the round under way. records are the images of the last round, by ID; nil before the first. failed
	// is set if the last round failed.
	turn    chan struct{}
	records map[string]record
	failed  bool
	// lastUsed is when images were last in use, by ID, as of the last round.
	lastUsed atomic.Pointer[map[string]time.Time]
}

// New returns a Collector that has detected no images yet.
func New(cfg Config) *Collector {
	if cfg.Pulling == nil {
		cfg.Pulling = func() []string { return nil }
	}
	if cfg.Unready == nil {
		cfg.Unready = func() []string { return nil }
	}
	if cfg.SourcesReady == nil {
		cfg.SourcesReady = func() bool { return true }
	}
	if cfg.Event == nil {
		cfg.Event = func(nodestatus.Event) {}
	}
	if cfg.Logger == nil {
		cfg.Logger = slog.New(slog.DiscardHandler)
	}
	c := &Collector{
		cfg: cfg, log: cfg.Logger, started: time.Now(), stat: statfs, turn: make(chan struct{}, 1),
		removed: kubeletmetrics.ImageGarbageCollected.Vec(cfg.Metrics),
	}
	return c
}

// Run collects until ctx ends. Its first round only detects images: pods that require one may not be known yet.
func (c *Collector) Run(ctx context.Context) {
	ticker := time.NewTicker(period)
	defer ticker.Stop()
	for round := c.detectImages; ; round = c.collect {
		c.report(ctx, c.locked(ctx, round))
		select {
		case <-ticker.C:
		case <-ctx.Done():
			return
		}
	}
}

// RemoveUnused removes all unused images older than MinAge.
func (c *Collector) RemoveUnused(ctx context.Context) error {
	return c.locked(ctx, func(ctx context.Context, now time.Time) error {
		r, err := c.begin(ctx, now, nil)
		if err != nil {
			return err
		}
		_, err = c.free(ctx, r, math.MaxInt64)
		return err
	})
}

// locked calls round when no other round is under way. A round may wait for the runtime for long.
func (c *Collector) locked(ctx context.Context, round func(context.Context, time.Time) error) error {
	select {
	case c.turn <- struct{}{}:
		defer func() { <-c.turn }()
		return round(ctx, time.Now())
	case <-ctx.Done():
		return ctx.Err()
	}
}

// LastUsed returns when images were last found in use, by ID. The result must not be changed.
func (c *Collector) LastUsed() map[string]time.Time {
	if known := c.lastUsed.Load(); known != nil {
		return *known
	}
	return nil
}

// report reports the result of a round: failures in the log when they start and end, and as an event from the second
// failure on, as the kubelet does.
func (c *Collector) report(ctx context.Context, err error) {
	switch {
	case ctx.Err() != nil:
		return
	case err == nil && c.failed:
		c.log.Info("unused images can be removed again")
	case err != nil && c.failed:
		if list := (*listError)(nil); errors.As(err, &list) {
			err = list.err // The kubelet's event has only the runtime's error.
		}
		c.cfg.Event(nodestatus.Event{Type: events.Warning, Reason: imageGCFailed, Message: err.Error()})
	case err != nil:
		c.log.Warn("can't remove unused images; retrying", "error", err, "every", period)
	}
	c.failed = err != nil
}

// detectImages lists the images and removes none.
func (c *Collector) detectImages(ctx context.Context, now time.Time) error {
	_, err := c.begin(ctx, now, c.cfg.Listing)
	return err
}

// collect is a round: it removes images older than MaxAge, and then as many as the disk requires.
func (c *Collector) collect(ctx context.Context, now time.Time) error {
	r, err := c.begin(ctx, now, c.cfg.Listing)
	if err != nil || c.cfg.HighThresholdPercent >= 100 && c.cfg.MaxAge == 0 {
		return err
	}
	old := c.freeOld(ctx, r)
	if c.cfg.HighThresholdPercent >= 100 {
		return old
	}
	dir, err := c.cfg.ImageDir(ctx)
	if err != nil {
		return errors.Join(old, fmt.Errorf("get the file system of images: %w", err))
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
	excess := has.excess(c.cfg.HighThresholdPercent, c.cfg.LowThresholdPercent)
	if excess <= 0 {
		return old
	}
	c.log.Info("disk usage of images is over the high threshold", "directory", dir, "high", c.cfg.HighThresholdPercent, "low", c.cfg.LowThresholdPercent, "bytes_to_free", excess)
	freed, err := c.free(ctx, r, excess)
	if err == nil && freed < excess {
		err = fmt.Errorf("Insufficient free disk space on the node's image filesystem (%d%% of %s used). "+ //nolint:staticcheck // It is the kubelet's.
			"Failed to free sufficient space by deleting unused images (freed %d bytes). "+
			"Investigate disk usage, as it could be used by active images, logs, volumes, or other data.", has.used(), size(has.bytes), freed)
		c.cfg.Event(nodestatus.Event{Type: events.Warning, Reason: freeDiskSpaceFailed, Message: err.Error()})
	}
	return errors.Join(old, err)
}
