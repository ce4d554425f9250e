package gc

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"

	"github.com/podstream/podstream/internal/execsvc/observed"
)

// maxRemoving is how long a round may take to remove containers. The sync loop waits meanwhile; the next round goes on.
const maxRemoving = 10 * time.Second

// Remover removes a container that has ended, with its log and the link to it; it is a runtime.Runtime. It is no error if the container
// is gone already.
type Remover interface {
	RemoveContainer(ctx context.Context, pod *observed.Pod, c observed.Container) error
}

// Config says what a Collector may keep.
type Config struct {
	Runtime Remover
	// LogsDir is the absolute path of the pods' logs, /var/log/pods; another agent may have its own there. The links to them are beside it,
	// in containers.
	LogsDir string
	// MaxDead is how many ended containers are left of all pods together, but for the last one of each name of a pod that is wanted: that
	// one stays. Below zero: any number.
	MaxDead int
	// MinAge is how long a container is kept at least once it has ended.
	MinAge time.Duration
	// Period is the time between two rounds. Zero means the kubelet's minute.
	Period time.Duration
	// Clock is for ages and the period. Nil means the real one.
	Clock clock.PassiveClock
	// Logger gets a line for each container that is removed, and for debugging one for each link. Nil discards.
	Logger *slog.Logger
}

// Collector removes what nobody needs. Collect has one caller at a time; RemoveAll may be called beside it.
type Collector struct {
	cfg Config
	log *slog.Logger
	// linksDir is /var/log/containers, if the logs are in /var/log/pods.
	linksDir string
	// last is when the last round began.
	last time.Time
}

// New returns a Collector. The first Collect is its first round.
func New(cfg Config) *Collector {
	if cfg.Period == 0 {
		cfg.Period = time.Minute
	}
	if cfg.Clock == nil {
		cfg.Clock = clock.RealClock{}
	}
	if cfg.Logger == nil {
		cfg.Logger = slog.New(slog.DiscardHandler)
	}
	cfg.LogsDir = filepath.Clean(cfg.LogsDir)
	return &Collector{cfg: cfg, log: cfg.Logger, linksDir: filepath.Join(filepath.Dir(cfg.LogsDir), "containers")}
}

// Collect removes what nobody needs, or does nothing if the last round wasn't Period ago. found are this agent's pods that the runtime has,
// as it was read lately; known tells whether a pod is desired or being worked on; settled, whether all sources have spoken. Until they have,
// every pod counts as wanted.
//
// What can't be removed doesn't keep the rest from being removed; the error tells of all of it, and the next round tries again.
func (c *Collector) Collect(ctx context.Context, found []*observed.Pod, known func(types.UID) bool, settled bool) error {
	now := c.cfg.Clock.Now()
	if !c.last.IsZero() && now.Sub(c.last) < c.cfg.Period {
		return nil
	}
	c.last = now
	wanted := func(uid types.UID) bool { return !settled || known(uid) }
	removing, cancel := context.WithTimeout(ctx, maxRemoving)
	defer cancel()
	errs := []error{c.removeContainers(removing, surplus(found, wanted, c.cfg.MaxDead, now.Add(-c.cfg.MinAge)), "the node has more of them than it may keep")}
	if err := c.removeLinks(ctx, newPicture(c.cfg.LogsDir, c.linksDir, found)); err != nil {
		errs = append(errs, fmt.Errorf("remove links to logs that are gone: %w", err))
	}
	return errors.Join(errs...)
}

// RemoveAll removes all ended containers but young ones, however many may be left: the disk that they are on runs full. Of the pods that are
// wanted the last one of each name stays, and of others none.
func (c *Collector) RemoveAll(ctx context.Context, found []*observed.Pod, wanted func(types.UID) bool) error {
	return c.removeContainers(ctx, surplus(found, wanted, 0, c.cfg.Clock.Now().Add(-c.cfg.MinAge)), "their disk runs full")
}

func (c *Collector) removeContainers(ctx context.Context, surplus []ended, why string) error {
	var errs []error
	for _, e := range surplus {
		if ctx.Err() != nil {
			break
		}
		if err := c.cfg.Runtime.RemoveContainer(ctx, e.pod, e.Container); err != nil {
			errs = append(errs, fmt.Errorf("pod %s/%s: %w", e.pod.Namespace, e.pod.Name, err))
			continue
		}
		c.log.Info("removed a container that had ended", "pod", e.pod.Namespace+"/"+e.pod.Name, "uid", e.pod.UID, "container", e.Name, "id", e.ID, "as", why)
	}
	return errors.Join(errs...)
}
