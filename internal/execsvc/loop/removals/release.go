package removals

import (
	"context"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/podstream/podstream/client"
)

// Run passes held removals on as the limit allows, until ctx ends or Next fails.
func (g *Gate) Run(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-g.more:
		}
		for {
			wait, err := g.release(ctx)
			if err != nil {
				return
			}
			if wait == 0 {
				break
			}
			timer := g.cfg.Clock.NewTimer(wait)
			select {
			case <-ctx.Done():
				timer.Stop()
				return
			case <-timer.C():
			}
		}
	}
}

// release passes on the held removals that don't count any more, as the pods have ended meanwhile, and the first of the
// others that the limit allows. It returns how long the next one has to wait; zero: none is left.
func (g *Gate) release(ctx context.Context) (wait time.Duration, err error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	for _, uid := range slices.Clone(g.order) {
		if g.cfg.Counts(uid) {
			continue
		}
		if err := g.passOn(ctx, uid); err != nil {
			return 0, err
		}
	}
	for len(g.order) > 0 {
		if wait := g.window.wait(g.cfg.Clock.Now()); wait > 0 {
			return wait, nil
		}
		g.take()
		if err := g.passOn(ctx, g.order[0]); err != nil {
			return 0, err
		}
	}
	return 0, nil
}

// passOn passes on a held removal. The caller holds mu.
func (g *Gate) passOn(ctx context.Context, uid types.UID) error {
	c := g.held[uid]
	g.forget(uid)
	return g.cfg.Next(ctx, client.Event{Ops: []client.Change{c}, Cursor: g.position(g.cursor)})
}
