package robustness

import (
	"fmt"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"
	"pgregory.net/rapid"

	podconfigv1 "github.com/podstream/podstream/proto/podconfig/v1"
)

// mover is a consumer, and the gateway where it is.
type mover struct {
	*consumer
	where *gateway
}

// consume makes a consumer read all, or move to a gateway.
func (w *cloud) consume(c *mover, to *gateway) error {
	w.operations++
	if c.where != nil {
		w.rest(c, (*stream).reached, false)
		if oneIn(w, 3, "stays") {
			return nil
		}
		w.leave(c)
	}
	return w.move(c, to)
}

// leave ends a consumer's stream.
func (w *cloud) leave(c *mover) {
	c.drop()
	c.where = nil
}

// move makes a consumer subscribe at a gateway: with its cursor and its pods, sometimes with older ones, or with none.
func (w *cloud) move(c *mover, to *gateway) error {
	req := &podconfigv1.WatchPodUpdatesRequest{
		Consumer: c.name, Mode: c.mode, Format: c.format, Filter: c.filter, HeartbeatInterval: durationpb.New(time.Second),
	}
	how := w.intn(12, "how to come back")
	switch {
	case len(c.saved) == 0 || how == 11:
		c.holds = newReplica()
	case how == 10:
		older := c.saved[w.intn(len(c.saved), "which cursor")]
		c.holds, req.ResumeAfter = older.held.clone(), older.cursor
	default:
		last := c.saved[len(c.saved)-1]
		c.holds, req.ResumeAfter = last.held.clone(), last.cursor
	}
	req.KnownPods = c.known()
	if err := c.open(to.api(), req, -1, c.SubscribeTo(to.number, req)); err != nil {
		return err
	}
	c.where = to
	w.rest(c, (*stream).reached, false)
	return nil
}

// rest waits until a consumer has all that its gateway sends.
func (w *cloud) rest(c *mover, done func(*stream, uint64) bool, last bool) {
	if w.stuck {
		return
	}
	hurry := func() bool {
		for _, g := range w.gateways {
			if last {
				w.stuck = g.catchUp() != nil || w.stuck
			}
			g.hurry()
		}
		return true
	}
	if !c.stream.await(done, c.where.at.revision, hurry, w.patience) {
		w.stuck = true
		c.stream.recorder.End(fmt.Errorf("it didn't receive all up to revision %d", c.where.at.revision), false)
		return
	}
	c.stream.recorder.Rest(last)
	if c.stream.holds() {
		w.seen[restHeld]++
	} else {
		w.seen[restFree]++
	}
}

// finish makes all gateways read the API server, and all consumers read what the gateways then have.
func (w *cloud) finish() error {
	for _, g := range w.gateways {
		g.linked = true
		g.accept(w.former)
		if err := g.list(); err != nil {
			return err
		}
	}
	for _, c := range w.consumers {
		if c.where == nil && !w.stuck {
			if err := w.move(c, w.gateways[w.intn(len(w.gateways), "gateway")]); err != nil {
				return err
			}
		}
	}
	for _, c := range w.consumers {
		if c.where != nil {
			w.rest(c, (*stream).released, true)
		}
	}
	return nil
}

// end ends all streams and gateways.
func (w *cloud) end() {
	for _, c := range w.consumers {
		if c.where != nil {
			w.leave(c)
		}
	}
	for _, g := range w.gateways {
		g.close()
	}
}

// simulateGateways makes one run.
func simulateGateways(t *rapid.T, patience time.Duration) *cloud {
	w, err := newCloud(drawn{t}, tempDir(t), patience)
	defer w.end()
	if err != nil {
		t.Fatal(err)
	}
	t.Repeat(map[string]func(*rapid.T){"step": func(t *rapid.T) {
		if err := w.step(); err != nil {
			t.Fatal(err)
		}
	}})
	if err := w.finish(); err != nil {
		t.Fatal(err)
	}
	return w
}
