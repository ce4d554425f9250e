package storage

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/podstream/podstream/internal/execsvc/setup/volume"
)

// stoppable is a truth whose calls of Publish end with their context.
type stoppable struct{ *truth }

// StopsPublish is part of Stoppable.
func (stoppable) StopsPublish() bool { return true }

func useStoppable(c *Config) {
	c.Backends = map[string]Backend{"b": stoppable{c.Backends["b"].(*truth)}}
}

// silent is an answer of a publish that ends with its context, with that outcome.
func silent(out Outcome) func(context.Context, string) error {
	hangs := hang("publish")
	return func(ctx context.Context, call string) error {
		if err := hangs(ctx, call); err != nil {
			return &Error{out, err}
		}
		return nil
	}
}

// waitFor has a pod wait for its volume for that long.
func (n *node) waitFor(d time.Duration) {
	n.t.Helper()
	ctx, cancel := context.WithTimeout(n.t.Context(), d)
	defer cancel()
	if err := n.manager.SetUp(ctx, volume.Request{Pod: pod("u1", "h")}); !errors.Is(err, context.DeadlineExceeded) {
		n.t.Fatalf("error %v", err)
	}
}

// TestStopPublish: a pod that waits for a volume whose server doesn't answer ends at once when it is deleted, also if podexecd has
// restarted. What may be mounted is undone first. A call that may go on without its caller isn't stopped: its answer would be lost.
func TestStopPublish(t *testing.T) {
	const waited = 15 * time.Second
	for name, test := range map[string]struct {
		change  func(*Config)
		restart bool
		// takes is how long the end of the pod takes at least. Zero: it takes less than a second.
		takes time.Duration
	}{
		"stops":              {change: useStoppable},
		"stops, restarted":   {change: useStoppable, restart: true},
		"goes on":            {takes: defaultTimeout - waited},
		"goes on, restarted": {restart: true, takes: defaultTimeout},
	} {
		t.Run(name, func(t *testing.T) {
			dir, d := t.TempDir(), newTruth()
			synctest.Test(t, func(t *testing.T) {
				d.answer(silent(Uncertain))
				n := start(t, dir, d, test.change)
				n.waitFor(waited)
				if test.restart {
					n.stop()
					n = start(t, dir, d, test.change)
					synctest.Wait() // The call is repeated.
				}
				d.called()
				began := time.Now()
				for n.manager.TearDown(t.Context(), "u1") != nil {
					time.Sleep(100 * time.Millisecond)
				}
				if took := time.Since(began); took < test.takes || test.takes == 0 && took > time.Second {
					t.Errorf("the end of the pod took %v; want %v", took, test.takes)
				}
				n.expect("unpublish h u1", "unstage h", "drop name^h")
				n.empty()
				n.stop()
			})
		})
	}
}

// TestStoppedUnanswered: a call that was stopped, and may still have an effect, is repeated until it has an answer. Nothing is undone
// before that.
func TestStoppedUnanswered(t *testing.T) {
	dir, d := t.TempDir(), newTruth()
	synctest.Test(t, func(t *testing.T) {
		d.answer(silent(Unanswered))
		n := start(t, dir, d, useStoppable)
		n.waitFor(time.Second)
		if n.manager.TearDown(t.Context(), "u1") == nil {
			t.Error("torn down while the call may have an effect")
		}
		time.Sleep(time.Hour)
		for _, call := range d.called() {
			if strings.HasPrefix(call, "un") {
				t.Errorf("%s, and the publish has no answer", call)
			}
		}
		d.answer(nil)
		time.Sleep(time.Hour)
		n.mustTearDown("u1")
		n.empty()
		n.stop()
	})
}
