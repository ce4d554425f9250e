package syncloop

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/podstream/podstream/client"
	"github.com/podstream/podstream/internal/execsvc/pleg"
)

func TestEventIsAppliedInOrder(t *testing.T) {
	run(t, func(h *harness) {
		h.listed()
		h.wantDone(h.deliver(h.t.Context(), client.Event{Ops: []client.Change{
			change(client.Remove, "file", true, "old"),
			change(client.Add, "file", true, "a", "b"),
			change(client.Update, "file", true, "c"),
			change(client.Delete, "api", true, "d"),
			change(client.Restore, "http", false, "e"),
			change(client.Reconcile, "api", true, "f"),
		}}), nil)
		h.want(
			"remove default/pod-old=old",
			"add default/pod-a=a default/pod-b=b",
			"update default/pod-c=c",
			"update default/pod-d=d",
			"add default/pod-e=e",
			"reconcile default/pod-f=f",
			"sources api=true file=true http=false complete=false",
		)
	})
}

// The empty ADD has no pods, and says that its source is ready.
func TestEmptyAdd(t *testing.T) {
	run(t, func(h *harness) {
		h.listed()
		h.wantDone(h.deliver(h.t.Context(), client.Event{Ops: []client.Change{change(client.Add, "api", true)}}), nil)
		h.want("add ", "sources api=true complete=false")
	})
}

func TestSyncedTellsAllSources(t *testing.T) {
	run(t, func(h *harness) {
		h.listed()
		h.wantDone(h.deliver(h.t.Context(), client.Event{
			Synced: true, Sources: []client.Source{{Name: "file", Ready: true}, {Name: "api"}},
		}), nil)
		h.want("sources api=false file=true complete=true")
	})
}

// TestSourcesChange: a heartbeat's list is of all sources, as that of synced; it overrules what ops of its own event say, which
// are of sources that are configured no longer. Without a list nothing is said of the others.
func TestSourcesChange(t *testing.T) {
	run(t, func(h *harness) {
		h.listed()
		h.wantDone(h.deliver(h.t.Context(), client.Event{Ops: []client.Change{change(client.Remove, "api", false, "a")}}), nil)
		h.want("remove default/pod-a=a", "sources api=false complete=false")
		h.wantDone(h.deliver(h.t.Context(), client.Event{
			Ops:     []client.Change{change(client.Remove, "api", true, "b")},
			Sources: []client.Source{{Name: "file", Ready: true}, {Name: "relay"}},
		}), nil)
		h.want("remove default/pod-b=b", "sources file=true relay=false complete=true")
		h.wantDone(h.deliver(h.t.Context(), client.Event{Sources: []client.Source{}}), nil)
		h.want("sources complete=true")
		h.wantDone(h.deliver(h.t.Context(), client.Event{}), nil)
		h.want("sources complete=false")
	})
}

func TestUnknownOpTouchesNothing(t *testing.T) {
	run(t, func(h *harness) {
		h.listed()
		h.wantDone(h.deliver(h.t.Context(), client.Event{Ops: []client.Change{
			change(client.Op(99), "file", true, "a"), change(client.Add, "file", true, "b"),
		}}), nil)
		h.want("add default/pod-b=b", "sources file=true complete=false")
		if !strings.Contains(h.log.String(), "level=ERROR") {
			t.Errorf("log %q; want an error", h.log)
		}
	})
}

// What runs must be known before anything is added to it.
func TestStreamWaitsForTheFirstList(t *testing.T) {
	run(t, func(h *harness) {
		done := h.deliver(h.t.Context(), client.Event{Ops: []client.Change{change(client.Add, "file", true, "a")}})
		h.clock.Step(time.Hour)
		h.wantPending(done)
		h.want()
		h.see()
		h.wantDone(done, nil)
		h.want("begin", "add default/pod-a=a", "sources file=true complete=false")
	})
}

// The first list's own events come before the stream.
func TestFirstListComesFirst(t *testing.T) {
	run(t, func(h *harness) {
		done := h.deliver(h.t.Context(), client.Event{Ops: []client.Change{change(client.Add, "file", true, "a")}})
		h.see(pleg.Event{UID: "old", Type: pleg.ContainerStarted})
		h.wantDone(done, nil)
		h.want("begin", "sync [old]", "add default/pod-a=a", "sources file=true complete=false")
	})
}

func TestDeliverReturnsWhenApplied(t *testing.T) {
	run(t, func(h *harness) {
		h.handler.hold = make(chan struct{})
		h.listed()
		done := h.deliver(h.t.Context(), client.Event{Ops: []client.Change{change(client.Add, "file", true, "a")}})
		h.wantPending(done)
		h.want("add default/pod-a=a")
		close(h.handler.hold)
		h.wantDone(done, nil)
		h.want("sources file=true complete=false")
	})
}

func TestDeliverEndsWithItsContext(t *testing.T) {
	t.Run("before the loop has it", func(t *testing.T) {
		run(t, func(h *harness) {
			ctx, cancel := context.WithCancel(h.t.Context())
			done := h.deliver(ctx, client.Event{Ops: []client.Change{change(client.Add, "file", true, "a")}})
			cancel()
			h.wantDone(done, context.Canceled)
			h.listed()
		})
	})
	t.Run("while it is applied", func(t *testing.T) {
		run(t, func(h *harness) {
			h.handler.hold = make(chan struct{})
			h.listed()
			ctx, cancel := context.WithCancel(h.t.Context())
			done := h.deliver(ctx, client.Event{Ops: []client.Change{change(client.Add, "file", true, "a")}})
			cancel()
			h.wantDone(done, context.Canceled)
			close(h.handler.hold)
			// It is applied whole all the same.
			h.want("add default/pod-a=a", "sources file=true complete=false")
		})
	})
}

func TestPodsOfEventsAreSyncedOnce(t *testing.T) {
	run(t, func(h *harness) {
		h.listed()
		h.see(
			pleg.Event{UID: "b", Type: pleg.ContainerDied, ID: "1"},
			pleg.Event{UID: "a", Type: pleg.ContainerStarted, ID: "2"},
			pleg.Event{UID: "b", Type: pleg.ContainerRemoved, ID: "1"},
		)
		h.want("sync [b a]")
		h.see()
		h.want()
	})
}

func TestProbes(t *testing.T) {
	run(t, func(h *harness) {
		// What a probe says of a pod means nothing before anybody has it.
		h.probe("b", "a")
		h.want()
		h.see()
		h.want("begin", "probes [b a]")
		h.probe("a")
		h.want("probes [a]")
		// They were taken with the last ones.
		h.probe()
		h.want()
	})
}

// A loop for which nobody probes, and that has nothing to begin with.
func TestWithoutProbes(t *testing.T) {
	run(t, func(h *harness) {
		handler, ready := &fakeHandler{}, make(chan struct{}, 1)
		loop := New(Config{Handler: handler, Ready: ready, Take: func() []pleg.Event { return []pleg.Event{{UID: "a"}} }, Clock: h.clock})
		ctx, cancel := context.WithCancel(h.t.Context())
		done := make(chan struct{})
		go func() {
			defer close(done)
			loop.Run(ctx)
		}()
		ready <- struct{}{}
		synctest.Wait()
		cancel()
		<-done
		if !slices.Equal(handler.calls, []string{"sync [a]"}) {
			t.Errorf("calls %q", handler.calls)
		}
	})
}

func TestHousekeeping(t *testing.T) {
	run(t, func(h *harness) {
		// Nothing may be cleaned up before it is known what runs.
		h.clock.Step(2 * time.Second)
		h.want()
		h.listed()
		h.clock.Step(2*time.Second - time.Nanosecond)
		h.want()
		h.clock.Step(time.Nanosecond)
		h.want("clean up")
		// The same failure each two seconds is one line.
		for _, err := range []error{errors.New("disk on fire"), errors.New("disk on fire"), nil, errors.New("disk on fire"), errors.New("disk wet")} {
			h.handler.cleanUpErr = err
			h.clock.Step(2 * time.Second)
			h.want("clean up")
		}
		if strings.Count(h.log.String(), "disk on fire") != 2 || strings.Count(h.log.String(), "disk wet") != 1 {
			t.Errorf("log %q; want each failure once, and again after it was over", h.log)
		}
	})
}

func TestRunEnds(t *testing.T) {
	run(t, func(h *harness) {
		h.listed()
		h.cancel()
		synctest.Wait()
		h.clock.Step(time.Hour)
		h.want()
	})
}

// A loop that one turn holds up for minutes says so, and is well again when it turns.
func TestHealth(t *testing.T) {
	if err := New(Config{}).Health(); err == nil {
		t.Error("a loop that was never run is healthy")
	}
	run(t, func(h *harness) {
		h.listed()
		if err := h.Health(); err != nil {
			t.Error(err)
		}
		h.handler.hold = make(chan struct{})
		done := h.deliver(h.t.Context(), client.Event{Ops: []client.Change{change(client.Add, "file", true, "a")}})
		h.clock.Step(longestTurn)
		if err := h.Health(); err != nil {
			t.Error(err)
		}
		h.clock.Step(time.Second)
		if err := h.Health(); err == nil || !strings.Contains(err.Error(), "2m1s") {
			t.Errorf("a loop that has hung for 2m1s says %v", err)
		}
		close(h.handler.hold)
		h.wantDone(done, nil)
		if err := h.Health(); err != nil {
			t.Error(err)
		}
	})
}
