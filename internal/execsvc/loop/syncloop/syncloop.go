package syncloop

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"sync/atomic"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"

	"github.com/podstream/podstream/client"
	"github.com/podstream/podstream/internal/execsvc/cri/pleg"
	"github.com/podstream/podstream/internal/failpoint"
)

// SyncHandler handles the events of the loop, as in the kubelet.
type SyncHandler interface {
	// HandlePodAdditions handles pods that are new, or that the node may have already.
	HandlePodAdditions(pods []*v1.Pod)
	// HandlePodUpdates handles pods whose spec, labels or annotations changed, or that are being deleted.
	HandlePodUpdates(pods []*v1.Pod)
	// HandlePodRemoves handles pods that are gone from their source. They have only UID, namespace and name.
	HandlePodRemoves(pods []*v1.Pod)
	// HandlePodReconcile handles pods of which only the status changed.
	HandlePodReconcile(pods []*v1.Pod)
	// HandlePodSyncs handles pods of which the runtime's state changed.
	HandlePodSyncs(uids []types.UID)
	// HandleProbes handles pods of which the result of a probe changed.
	HandleProbes(uids []types.UID)
	// HandlePodCleanups is called for the housekeeping.
	HandlePodCleanups(ctx context.Context) error
	// HandleSources handles the readiness of sources. complete is set if ready has all sources.
	HandleSources(ready map[string]bool, complete bool)
}

// Config configures a Loop.
type Config struct {
	Handler SyncHandler
	// Changed is called with each op of the stream, before the Handler. May be nil.
	Changed func(client.Change)
	// Ready is ready when there are events to Take, and the first time after the first relist. Both are the pleg's.
	Ready <-chan struct{}
	Take  func() []pleg.Event
	// ProbesReady is ready when TakeProbes returns pods of which the result of a probe changed. Nil: there are no
	// probes.
	ProbesReady <-chan struct{}
	TakeProbes  func() []types.UID
	// Begin is called once, after the first relist and before any call of the Handler. May be nil.
	Begin func()
	// Pulses are requests for a sign of progress: the loop closes each channel that it receives, between two events. May
	// be nil.
	Pulses <-chan chan<- struct{}
	// Housekeeping is the time between clean-ups. Zero means 2 s.
	Housekeeping time.Duration
	// Clock is for the housekeeping. Nil means the real one.
	Clock clock.WithTicker
	// Logger gets a line for each op, at debug level, and one for each new failure of housekeeping, and for each
	// source that becomes held or isn't held any more. Nil discards.
	Logger *slog.Logger
}

// Loop is the sync loop.
type Loop struct {
	cfg    Config
	stream chan delivery
	// held are the sources of which podconfigd sends nothing now. Only apply uses it.
	held map[string]bool
	// turned is when the loop last began to wait for an event; nil before it runs.
	turned atomic.Pointer[time.Time]
}

type delivery struct {
	event   client.Event
	applied chan struct{}
}

// New returns a Loop that does not run yet.
func New(cfg Config) *Loop {
	if cfg.Housekeeping == 0 {
		cfg.Housekeeping = 2 * time.Second
	}
	if cfg.Begin == nil {
		cfg.Begin = func() {}
	}
	if cfg.Clock == nil {
		cfg.Clock = clock.RealClock{}
	}
	if cfg.Logger == nil {
		cfg.Logger = slog.New(slog.DiscardHandler)
	}
	return &Loop{cfg: cfg, stream: make(chan delivery)}
}

// Deliver passes an event of the stream to the loop and returns when it is applied. client.Watch calls it.
func (l *Loop) Deliver(ctx context.Context, e client.Event) error {
	d := delivery{event: e, applied: make(chan struct{})}
	select {
	case l.stream <- d:
	case <-ctx.Done():
		return ctx.Err()
	}
	select {
	case <-d.applied:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// Run runs the loop until ctx ends.
func (l *Loop) Run(ctx context.Context) {
	housekeeping := l.cfg.Clock.NewTicker(l.cfg.Housekeeping)
	defer housekeeping.Stop()
	// Nil until the first relist: a nil channel is never ready.
	var stream <-chan delivery
	var probes <-chan struct{}
	complaint := ""
	for {
		now := l.cfg.Clock.Now()
		l.turned.Store(&now)
		select {
		case d := <-stream:
			l.apply(d.event)
			close(d.applied)
		case <-l.cfg.Ready:
			if stream == nil {
				l.cfg.Begin()
				stream, probes = l.stream, l.cfg.ProbesReady
			}
			if uids := touched(l.cfg.Take()); len(uids) > 0 {
				l.cfg.Handler.HandlePodSyncs(uids)
			}
		case <-probes:
			if uids := l.cfg.TakeProbes(); len(uids) > 0 {
				l.cfg.Handler.HandleProbes(uids)
			}
		case pulse := <-l.cfg.Pulses:
			close(pulse)
		case <-housekeeping.C():
			failpoint.Hold(failpoint.BlockSyncLoop)
			if stream == nil {
				continue
			}
			complaint = l.complain(complaint, l.cfg.Handler.HandlePodCleanups(ctx))
		case <-ctx.Done():
			return
		}
	}
}

// longestTurn is how long the loop may handle one event before it counts as hung; the kubelet's bound.
const longestTurn = 2 * time.Minute

// Health returns an error if the loop makes no progress. It does at least at each housekeeping.
func (l *Loop) Health() error {
	turned := l.turned.Load()
	if turned == nil {
		return errors.New("the sync loop doesn't run yet")
	}
	if since := l.cfg.Clock.Since(*turned); since > longestTurn {
		return fmt.Errorf("the sync loop has hung for %v", since.Round(time.Second))
	}
	return nil
}

// Answer answers a request for a sign of progress, if there is one. A handler that handles many pods calls it after each.
func (l *Loop) Answer() {
	select {
	case pulse := <-l.cfg.Pulses:
		close(pulse)
	default:
	}
}

// complain logs an error of the housekeeping, unless it is the last one again, and returns its text.
func (l *Loop) complain(last string, err error) string {
	if err == nil {
		return ""
	}
	if err.Error() != last {
		l.cfg.Logger.Error("housekeeping failed; retrying", "error", err)
	}
	return err.Error()
}

// apply calls the handler for one event, in the order of its ops.
func (l *Loop) apply(e client.Event) {
	for _, c := range e.Ops {
		pods := objects(c)
		if l.cfg.Changed != nil {
			l.cfg.Changed(c)
		}
		l.cfg.Logger.Debug("sync loop", "op", c.Op, "source", c.Source, "pods", len(pods))
		switch c.Op {
		case client.Add, client.Restore:
			l.cfg.Handler.HandlePodAdditions(pods)
		case client.Update, client.Delete:
			l.cfg.Handler.HandlePodUpdates(pods)
		case client.Remove:
			l.cfg.Handler.HandlePodRemoves(pods)
		case client.Reconcile:
			l.cfg.Handler.HandlePodReconcile(pods)
		default:
			l.cfg.Logger.Error("unknown op; its pods are left as they are", "op", c.Op, "source", c.Source)
		}
	}
	l.logHeld(e)
	// A source is ready only after all its pods have been handled.
	l.cfg.Handler.HandleSources(readiness(e), e.Sources != nil)
}

// logHeld logs when a source becomes held, and when that ends.
func (l *Loop) logHeld(e client.Event) {
	if e.Sources == nil {
		return
	}
	held := map[string]bool{}
	for _, s := range e.Sources {
		switch {
		case s.HeldReason == "":
			continue
		case !l.held[s.Name]:
			l.cfg.Logger.Warn("podconfigd is behind this node and sends nothing of a source until it has caught up; its pods stay as they are",
				"source", s.Name, "reason", s.HeldReason)
		}
		held[s.Name] = true
	}
	for _, source := range slices.Sorted(maps.Keys(l.held)) {
		if !held[source] {
			l.cfg.Logger.Info("podconfigd sends all of a source again", "source", source)
		}
	}
	l.held = held
}

// readiness returns the readiness in the event: of all configured sources, or of the sources of its ops.
func readiness(e client.Event) map[string]bool {
	ready := map[string]bool{}
	for _, s := range e.Sources {
		ready[s.Name] = s.Ready
	}
	if e.Sources != nil {
		return ready
	}
	for _, c := range e.Ops {
		ready[c.Source] = c.SourceReady
	}
	return ready
}

func objects(c client.Change) []*v1.Pod {
	out := make([]*v1.Pod, 0, len(c.Pods))
	for _, p := range c.Pods {
		if p.Object != nil {
			out = append(out, p.Object)
			continue
		}
		out = append(out, &v1.Pod{ObjectMeta: metav1.ObjectMeta{UID: p.UID, Namespace: p.Namespace, Name: p.Name}})
	}
	return out
}

// touched returns the pods of the events, each once, in the order of their first event.
func touched(events []pleg.Event) []types.UID {
	var out []types.UID
	seen := map[types.UID]bool{}
	for _, e := range events {
		if !seen[e.UID] {
			seen[e.UID] = true
			out = append(out, e.UID)
		}
	}
	return out
}
