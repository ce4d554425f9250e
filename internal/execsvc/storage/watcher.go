package storage

import (
	"context"
	"log/slog"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
	"k8s.io/utils/clock"

	"github.com/podstream/podstream/internal/execsvc/events"
	"github.com/podstream/podstream/internal/execsvc/status"
)

// Stats tells of the containers' writable layers; it is the container runtime.
type Stats interface {
	ListContainerStats(ctx context.Context, filter *runtimeapi.ContainerStatsFilter) ([]*runtimeapi.ContainerStats, error)
}

// Config says whom a Watcher watches, and where.
type Config struct {
	// Pods returns the pods that run, of which those with a limit are watched.
	Pods func() []*v1.Pod
	// Evict ends a pod that exceeds a limit, and is false if the pod was ending already. It is called again each time that Pods still has it.
	Evict func(types.UID, status.Failure) bool
	// Evictions counts the evicted pods, by what it was that they exceeded: pressure.NewEvictions. Nil: nobody does.
	Evictions *prometheus.CounterVec
	// Dir is the directory of an emptyDir of the pod, by its name.
	Dir func(pod *v1.Pod, volume string) string
	// LogsDir is the root of the pods' logs: /var/log/pods.
	LogsDir string
	Stats   Stats
	// Period is the time between two looks. Zero means the kubelet's 10 s.
	Period time.Duration
	// MaxTime and MaxFiles bound the counting of one pod's files. Zero means 10 s and a million.
	MaxTime  time.Duration
	MaxFiles int
	// Clock is for the period. Nil means the real one.
	Clock clock.Clock
	// Logger gets a line for each pod that can't be measured, once for each reason. Nil discards.
	Logger *slog.Logger
}

// Watcher looks after the pods' use of the disk.
type Watcher struct {
	cfg Config
	// watched are the pods that had a limit in the last round. Only Run uses it.
	watched map[types.UID]watched
}

// watched is what is remembered of a pod from round to round.
type watched struct {
	// due is when it is to be measured again at the earliest.
	due time.Time
	// trouble is why it couldn't be measured; empty if it could.
	trouble string
}

// New returns a Watcher that does nothing yet.
func New(cfg Config) *Watcher {
	if cfg.Period == 0 {
		cfg.Period = 10 * time.Second
	}
	if cfg.MaxTime == 0 {
		cfg.MaxTime = 10 * time.Second
	}
	if cfg.MaxFiles == 0 {
		cfg.MaxFiles = 1_000_000
	}
	if cfg.Clock == nil {
		cfg.Clock = clock.RealClock{}
	}
	if cfg.Logger == nil {
		cfg.Logger = slog.New(slog.DiscardHandler)
	}
	return &Watcher{cfg: cfg}
}

// Run watches until ctx ends.
func (w *Watcher) Run(ctx context.Context) {
	timer := w.cfg.Clock.NewTimer(w.cfg.Period)
	defer timer.Stop()
	for {
		select {
		case <-timer.C():
		case <-ctx.Done():
			return
		}
		w.round(ctx)
		timer.Reset(w.cfg.Period)
	}
}

// round looks at all pods once.
func (w *Watcher) round(ctx context.Context) {
	before := w.watched
	w.watched = map[types.UID]watched{}
	for _, pod := range w.cfg.Pods() {
		if has := limitsOf(pod); has != (limits{}) {
			w.watched[pod.UID] = w.look(ctx, pod, has, before[pod.UID])
		}
	}
}

// restFactor is how many times longer a pod is left alone than it took to measure it: a tenth of the time, at most, goes to each.
const restFactor = 9

// look measures the pod, if it is due, and has it evicted if it exceeds a limit.
func (w *Watcher) look(ctx context.Context, pod *v1.Pod, has limits, last watched) watched {
	begun := w.cfg.Clock.Now()
	if begun.Before(last.due) {
		return last
	}
	used, err := w.measure(ctx, pod, has)
	if ctx.Err() != nil {
		return last
	}
	now := w.cfg.Clock.Now()
	next := watched{due: now.Add(restFactor * now.Sub(begun))}
	if err != nil {
		next.trouble = err.Error()
	}
	if err != nil && next.trouble != last.trouble {
		w.cfg.Logger.Warn("what a pod uses of the disk isn't all known; what is known is held against its limits",
			"pod", pod.Namespace+"/"+pod.Name, "uid", pod.UID, "error", err)
	}
	// It is the pod's own doing, and so no disruption.
	signal, message := exceeded(pod, used)
	if message != "" && w.cfg.Evict(pod.UID, status.Failure{Reason: events.Evicted, Message: message}) && w.cfg.Evictions != nil {
		w.cfg.Evictions.WithLabelValues(signal).Inc()
	}
	return next
}
