package syncloop

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync/atomic"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"

	"github.com/podstream/podstream/client"
	"github.com/podstream/podstream/internal/execsvc/pleg"
)

// SyncHandler is what the loop drives, as in the kubelet.
type SyncHandler interface {
	// HandlePodAdditions takes pods that are new, or that the node may hold already.
	HandlePodAdditions(pods []*v1.Pod)
	// HandlePodUpdates takes pods whose spec, labels or annotations changed, or that are being deleted.
	HandlePodUpdates(pods []*v1.Pod)
	// HandlePodRemoves takes pods that are gone from their source; of these only UID, namespace and name are known.
	HandlePodRemoves(pods []*v1.Pod)
	// HandlePodReconcile takes pods of which only the status changed.
	HandlePodReconcile(pods []*v1.Pod)
	// HandlePodSyncs has pods looked at to whose containers something happened.
	HandlePodSyncs(uids []types.UID)
	// HandleProbes takes pods of which a probe says something else than before.
	HandleProbes(uids []types.UID)
	// HandlePodCleanups is the housekeeping.
	HandlePodCleanups(ctx context.Context) error
	// HandleSources takes the readiness of sources; complete means that there are no others.
	HandleSources(ready map[string]bool, complete bool)
}

// Config says what the loop reads.
type Config struct {
	Handler SyncHandler
	// Ready tells that there are events to Take, and, the first time, that the runtime has been listed: the pleg's.
	Ready <-chan struct{}
	Take  func() []pleg.Event
	// ProbesReady tells that there are pods to TakeProbes, of which a verdict changed. Nil: there are no probes.
	ProbesReady <-chan struct{}
	TakeProbes  func() []types.UID
	// Begin is called once, when the runtime has been listed and nothing has been handed to the Handler yet. Nil: nothing is.
	Begin func()
	// Housekeeping is the time between clean-ups. Zero means 2 s.
	Housekeeping time.Duration
	// Clock is for that. Nil means the real one.
	Clock clock.WithTicker
	// Logger gets a line for each op, at debug level, and one for each new failure of housekeeping. Nil discards.
	Logger *slog.Logger
}

// Loop is the sync loop.
type Loop struct {
	cfg    Config
	stream chan delivery
	// turned is when the loop last began to wait, in nanoseconds of Unix time; zero before it runs.
	turned atomic.Int64
}

type delivery struct {
	event   client.Event
	applied chan struct{}
}

// New returns a Loop that isn't running.
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

// Deliver hands an event of the stream to the loop and returns when it is applied. It is what client.Watch calls.
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
	// Nil until the runtime has been listed: a nil channel is never ready.
	var stream <-chan delivery
	var probes <-chan struct{}
	complaint := ""
	for {
		l.turned.Store(l.cfg.Clock.Now().UnixNano())
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
		case <-housekeeping.C():
			if stream == nil {
				continue
			}
			complaint = l.complain(complaint, l.cfg.Handler.HandlePodCleanups(ctx))
		case <-ctx.Done():
			return
		}
	}
}

// longestTurn is how long one turn of the loop may take before it counts as hung; the kubelet's bound.
const longestTurn = 2 * time.Minute

// Health is nil if the loop turns. It does so at least at each housekeeping.
func (l *Loop) Health() error {
	turned := l.turned.Load()
	if turned == 0 {
		return errors.New("the sync loop doesn't run yet")
	}
	if since := l.cfg.Clock.Since(time.Unix(0, turned)); since > longestTurn {
		return fmt.Errorf("the sync loop has hung for %v", since.Round(time.Second))
	}
	return nil
}

// complain logs why housekeeping failed, unless that is what was said last, and returns what is said now.
func (l *Loop) complain(last string, err error) string {
	if err == nil {
		return ""
	}
	if err.Error() != last {
		l.cfg.Logger.Error("housekeeping failed; it is tried again", "error", err)
	}
	return err.Error()
}

// apply hands over one event whole, in the order of its ops.
func (l *Loop) apply(e client.Event) {
	for _, c := range e.Ops {
		pods := objects(c)
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
			l.cfg.Logger.Error("op isn't known; its pods are left as they are", "op", c.Op, "source", c.Source)
		}
	}
	// A source is ready only once all that it said has been taken.
	l.cfg.Handler.HandleSources(readiness(e), e.Sources != nil)
}

// readiness is what the event tells of sources: of all that are configured, or of those that its ops are of.
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

// touched are the pods of the events, each once, in the order of their first event.
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
