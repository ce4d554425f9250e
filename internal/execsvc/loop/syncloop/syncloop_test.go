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
	"github.com/podstream/podstream/internal/execsvc/cri/pleg"
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

// An empty ADD has no pods, and means that its source is ready.
func TestEmptyAdd(t *testing.T) {
	run(t, func(h *harness) {
		h.listed()
		h.wantDone(h.deliver(h.t.Context(), client.Event{Ops: []client.Change{change(client.Add, "api", true)}}), nil)
		h.want("add ", "sources api=true complete=false")
	})
}

func TestSyncedHasAllSources(t *testing.T) {
	run(t, func(h *harness) {
		h.listed()
		h.wantDone(h.deliver(h.t.Context(), client.Event{
			Synced: true, Sources: []client.Source{{Name: "file", Ready: true}, {Name: "api"}},
		}), nil)
		h.want("sources api=false file=true complete=true")
	})
}

// TestSourcesChange: the list of a heartbeat has all sources, like that of synced. It overrides the ops of its own
// event, which are of sources that are not configured any more. An event without a list doesn't change other sources.
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

// TestHeldIsLogged: that a source is held is logged when it begins and when it ends, however often it is repeated.
func TestHeldIsLogged(t *testing.T) {
	run(t, func(h *harness) {
		h.listed()
		held := client.Event{Synced: true, Sources: []client.Source{{Name: "api", HeldReason: "lags"}, {Name: "file", Ready: true}}}
		free := client.Event{Sources: []client.Source{{Name: "api", Ready: true}, {Name: "file", Ready: true}}}
		counts := func(begun, ended int) {
			t.Helper()
			got := h.log.String()
			if strings.Count(got, "level=WARN") != begun || strings.Count(got, "sends all of a source again") != ended {
				t.Errorf("it is logged as\n%s\nwant %d times that it begins, and %d that it ends", got, begun, ended)
			}
		}
		for i, e := range []client.Event{free, held, held, {}, free, free, held, {Sources: []client.Source{}}} {
			h.wantDone(h.deliver(h.t.Context(), e), nil)
			counts([]int{0, 1, 1, 1, 1, 1, 2, 2}[i], []int{0, 0, 0, 0, 1, 1, 1, 2}[i])
		}
		if got := h.log.String(); !strings.Contains(got, "source=api reason=lags") || strings.Contains(got, "source=file") {
			t.Errorf("the log is\n%s\nwant api with its reason, and nothing of file", got)
		}
	})
}

func TestUnknownOpChangesNothing(t *testing.T) {
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

// The running pods must be known before pods are added.
func TestStreamWaitsForFirstRelist(t *testing.T) {
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

// The events of the first relist are handled before the stream.
func TestFirstRelistComesFirst(t *testing.T) {
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
			// The whole event is applied all the same.
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
		// Results of probes are not handled before the first relist.
		h.probe("b", "a")
		h.want()
		h.see()
		h.want("begin", "probes [b a]")
		h.probe("a")
		h.want("probes [a]")
		// The last call of TakeProbes has returned them.
		h.probe()
		h.want()
	})
}

// A loop without probes and without Begin.
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
		// There is no housekeeping before the first relist.
		h.clock.Step(2 * time.Second)
		h.want()
		h.listed()
		h.clock.Step(2*time.Second - time.Nanosecond)
		h.want()
		h.clock.Step(time.Nanosecond)
		h.want("clean up")
		// A failure that repeats every two seconds is logged once.
		for _, err := range []error{errors.New("disk on fire"), errors.New("disk on fire"), nil, errors.New("disk on fire"), errors.New("disk wet")} {
			h.handler.cleanUpErr = err
			h.clock.Step(2 * time.Second)
			h.want("clean up")
		}
		if strings.Count(h.log.String(), "disk on fire") != 2 || strings.Count(h.log.String(), "disk wet") != 1 {
			t.Errorf("log %q; want each failure once, and again after a success", h.log)
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

// Health returns an error while one event is handled for minutes, and nil after that.
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
			t.Errorf("after 2m1s without progress Health is %v", err)
		}
		close(h.handler.hold)
		h.wantDone(done, nil)
		if err := h.Health(); err != nil {
			t.Error(err)
		}
	})
}
