package containergc

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"

	"github.com/podstream/podstream/internal/execsvc/decide/nodestatus"
	"github.com/podstream/podstream/internal/execsvc/machine/walltime"
	"github.com/podstream/podstream/internal/execsvc/pod/events"
	"github.com/podstream/podstream/internal/execsvc/pod/observed"
)

// removeTimeout bounds the removals of a round. The next round continues.
const removeTimeout = 10 * time.Second

// Remover removes an exited container with its log and the link to the log; it is a runtime.Runtime. A container that
// is already gone is no error.
type Remover interface {
	RemoveContainer(ctx context.Context, pod *observed.Pod, c observed.Container) error
}

// Config configures a Collector.
type Config struct {
	Runtime Remover
	// LogsDir is the absolute path of the pods' logs, /var/log/pods, which other agents may share. The links to the
	// logs are beside it, in containers.
	LogsDir string
	// MaxContainers is the kubelet's maximum-dead-containers: the number of exited containers of all pods together.
	// The last one of each name of a wanted pod always stays. Below zero means any number.
	MaxContainers int
	// MinAge is how long a container is kept after it exited.
	MinAge time.Duration
	// Period is the time between two rounds. Zero means the kubelet's minute.
	Period time.Duration
	// Event is called with an event of the Node after a round with a failure. Nil: no call is made.
	Event func(nodestatus.Event)
	// Clock is the clock of ages and the period. Nil means the real one.
	Clock clock.PassiveClock
	// Logger receives a line for each removed container, and at debug level one for each removed link. Nil discards
	// them.
	Logger *slog.Logger
}

// Collector removes exited containers and dead links. Collect has one caller at a time; RemoveAll may be called
// concurrently.
type Collector struct {
	cfg Config
	log *slog.Logger
	// linksDir is /var/log/containers, if the logs are in /var/log/pods.
	linksDir string
	// last is when the last round started.
	last time.Time
	// ages are the ages of links, by name.
	ages walltime.Readings
}

// New returns a Collector. The first Collect is its first round.
func New(cfg Config) *Collector {
	if cfg.Period == 0 {
		cfg.Period = time.Minute
	}
	if cfg.Clock == nil {
		cfg.Clock = clock.RealClock{}
	}
	if cfg.Event == nil {
		cfg.Event = func(nodestatus.Event) {}
	}
	if cfg.Logger == nil {
		cfg.Logger = slog.New(slog.DiscardHandler)
	}
	cfg.LogsDir = filepath.Clean(cfg.LogsDir)
	return &Collector{cfg: cfg, log: cfg.Logger, linksDir: filepath.Join(filepath.Dir(cfg.LogsDir), "containers")}
}

// Collect does nothing if the last round was less than Period ago. found are this agent's pods in the runtime, as
// last read; known reports whether a pod is desired or has a worker; settled, whether all sources are ready. Until
// they are, every pod counts as wanted.
//
// A container or link that can't be removed doesn't keep the others from being removed; the error joins all failures,
// and the next round retries.
func (c *Collector) Collect(ctx context.Context, found []*observed.Pod, known func(types.UID) bool, settled bool) error {
	now := c.cfg.Clock.Now()
	if !c.last.IsZero() && now.Sub(c.last) < c.cfg.Period {
		return nil
	}
	c.last = now
	wanted := func(uid types.UID) bool { return !settled || known(uid) }
	removing, cancel := context.WithTimeout(ctx, removeTimeout)
	defer cancel()
	exited := removable(found, wanted, c.cfg.MaxContainers, now.Add(-c.cfg.MinAge), now)
	errs := []error{c.removeContainers(removing, exited, "the node has more exited containers than maximum-dead-containers")}
	if err := c.removeLinks(ctx, newLogState(c.cfg.LogsDir, c.linksDir, found)); err != nil {
		errs = append(errs, fmt.Errorf("remove links to missing logs: %w", err))
	}
	err := errors.Join(errs...)
	if err != nil && ctx.Err() == nil {
		c.cfg.Event(nodestatus.Event{Type: events.Warning, Reason: events.ContainerGCFailed, Message: err.Error()})
	}
	return err
}

// RemoveAll removes all exited containers older than MinAge, for a disk that fills: only the last one of each name of
// a wanted pod stays.
func (c *Collector) RemoveAll(ctx context.Context, found []*observed.Pod, wanted func(types.UID) bool) error {
	now := c.cfg.Clock.Now()
	return c.removeContainers(ctx, removable(found, wanted, 0, now.Add(-c.cfg.MinAge), now), "the disk is full")
}

func (c *Collector) removeContainers(ctx context.Context, exited []exitedContainer, reason string) error {
	var errs []error
	for _, e := range exited {
		if ctx.Err() != nil {
			break
		}
		if err := c.cfg.Runtime.RemoveContainer(ctx, e.pod, e.Container); err != nil {
			errs = append(errs, fmt.Errorf("pod %s/%s: %w", e.pod.Namespace, e.pod.Name, err))
			continue
		}
		c.log.Info("removed an exited container", "pod", e.pod.Namespace+"/"+e.pod.Name, "uid", e.pod.UID, "container", e.Name, "id", e.ID, "reason", reason)
	}
	return errors.Join(errs...)
}
