package removals

import (
	"context"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"

	"github.com/podstream/podstream/client"
	podconfigv1 "github.com/podstream/podstream/proto/podconfig/v1"
)

// Config configures a Gate.
type Config struct {
	// PerMinute is the number of removals in any minute. At least 1.
	PerMinute int
	// Past are the times of removals before the start, the earliest first.
	Past []time.Time
	// Next gets the events.
	Next func(context.Context, client.Event) error
	// Ends reports whether a version of a pod without a deletion timestamp ends the pod all the same.
	Ends func(client.Pod) bool
	// Counts reports whether the end of the pod counts: it is desired, it wasn't ended before, and its containers haven't
	// ended.
	Counts func(types.UID) bool
	// Counted is called with the times of the removals of the last minute, the earliest first, before Next gets the
	// last one.
	Counted func([]time.Time)
	// Held is called when the removal of a pod is held, and Dropped when the stream has the pod again.
	Held, Dropped func(types.UID)
	// Clock is for the limit.
	Clock clock.WithTicker
}

// Gate holds the removals that exceed the limit.
type Gate struct {
	cfg Config

	mu     sync.Mutex
	window window
	// held are the removals, and order their pods, the earliest first. count is their number: mu may be held for long.
	held  map[types.UID]client.Change
	order []types.UID
	count atomic.Int64
	// ended are the pods whose removals the present event has counted: Counts doesn't have that yet.
	ended map[types.UID]bool
	// cursor is the last one of the stream.
	cursor *podconfigv1.Cursor
	// more is signalled when a removal is held.
	more chan struct{}
}

// New returns a Gate.
func New(cfg Config) *Gate {
	return &Gate{
		cfg: cfg, window: newWindow(cfg.PerMinute, cfg.Past, cfg.Clock.Now()),
		held: map[types.UID]client.Change{}, ended: map[types.UID]bool{}, more: make(chan struct{}, 1),
	}
}

// Len returns the number of held removals. It doesn't wait for an event that is being passed on.
func (g *Gate) Len() int { return int(g.count.Load()) }

// Deliver passes an event on, without the removals that exceed the limit.
func (g *Gate) Deliver(ctx context.Context, e client.Event) error {
	g.mu.Lock()
	defer g.mu.Unlock()
	ops := make([]client.Change, 0, len(e.Ops))
	clear(g.ended)
	for _, c := range e.Ops {
		pass := c
		pass.Pods = slices.DeleteFunc(slices.Clone(c.Pods), func(p client.Pod) bool { return g.hold(c, p) })
		// Without pods, it has the readiness of its source.
		ops = append(ops, pass)
	}
	g.setReady(e)
	if e.Cursor != nil {
		g.cursor = e.Cursor
	}
	e.Ops, e.Cursor = ops, g.position(e.Cursor)
	return g.cfg.Next(ctx, e)
}

// hold reports whether the change of one pod is held. The caller holds mu.
func (g *Gate) hold(c client.Change, p client.Pod) bool {
	before, held := g.held[p.UID]
	if g.ended[p.UID] {
		return false
	}
	if !g.ends(c, p) {
		if held {
			g.forget(p.UID)
			g.cfg.Dropped(p.UID)
		}
		return false
	}
	switch {
	case held: // A deletion may be followed by the removal.
	case !g.cfg.Counts(p.UID):
		return false
	case len(g.held) == 0 && g.take():
		g.ended[p.UID] = true
		return false
	default:
		g.order = append(g.order, p.UID)
		g.cfg.Held(p.UID)
	}
	if c.Op == client.Reconcile {
		// It may replace a deletion, or an update, that wasn't passed on.
		c.Op = client.Update
		if held && before.Op != client.Remove {
			c.Op = before.Op
		}
	}
	c.Pods = []client.Pod{p}
	g.held[p.UID] = c
	g.count.Store(int64(len(g.held)))
	select {
	case g.more <- struct{}{}:
	default:
	}
	return true
}

// ends reports whether the change ends the pod.
func (g *Gate) ends(c client.Change, p client.Pod) bool {
	return c.Op == client.Remove || c.Op == client.Delete || p.Object != nil && (p.Object.DeletionTimestamp != nil || g.cfg.Ends(p))
}

// take counts a removal if one may happen now.
func (g *Gate) take() bool {
	now := g.cfg.Clock.Now()
	if g.window.wait(now) > 0 {
		return false
	}
	g.window.take(now)
	g.cfg.Counted(slices.Clone(g.window.times))
	return true
}

func (g *Gate) forget(uid types.UID) {
	delete(g.held, uid)
	g.order = slices.DeleteFunc(g.order, func(o types.UID) bool { return o == uid })
	g.count.Store(int64(len(g.held)))
}

// setReady sets the readiness of the sources in the held removals, as these come after the event.
func (g *Gate) setReady(e client.Event) {
	if len(g.held) == 0 {
		return
	}
	ready := map[string]bool{}
	for _, c := range e.Ops {
		ready[c.Source] = c.SourceReady
	}
	for _, s := range e.Sources {
		ready[s.Name] = s.Ready
	}
	for uid, c := range g.held {
		if r, ok := ready[c.Source]; ok && r != c.SourceReady {
			c.SourceReady = r
			g.held[uid] = c
		}
	}
}

// position returns the cursor to store in place of c. A cursor with a revision stands for exactly the stream's pods.
func (g *Gate) position(c *podconfigv1.Cursor) *podconfigv1.Cursor {
	if c == nil || len(g.held) == 0 {
		return c
	}
	return &podconfigv1.Cursor{PodconfigdId: c.GetPodconfigdId(), Positions: c.GetPositions()}
}
