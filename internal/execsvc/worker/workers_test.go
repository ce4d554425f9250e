package worker

import (
	"context"
	"slices"
	"testing"
	"testing/synctest"
	"time"
)

func TestLife(t *testing.T) {
	run(t, func(h *harness) {
		pod := newPod("a", "web")
		h.Update(pod)
		h.want("sync a")
		h.wantState("a", Syncing)
		h.Remove(pod, 30)
		h.want("terminate a 30", "clean up a", "purge a")
		h.wantGone("a")
		if len(h.queues) != 0 {
			t.Errorf("queues %v are left", h.queues)
		}
	})
}

// A pod that has run to its end is stopped and cleaned up, and stays as long as it is desired.
func TestTerminalPodStays(t *testing.T) {
	run(t, func(h *harness) {
		pod := newPod("a", "job")
		h.plan("sync a", func(context.Context) (Result, error) { return Result{Terminal: true}, nil })
		h.Update(pod)
		h.want("sync a", "terminate a 30", "clean up a")
		h.wantState("a", Finished)
		h.Update(newPod("a", "job"))
		h.Sync("a")
		h.clock.Step(time.Hour)
		h.want()
		h.Remove(pod, 30)
		h.want("purge a")
		h.wantGone("a")
	})
}

func TestDeletedPodTerminates(t *testing.T) {
	run(t, func(h *harness) {
		pod := newPod("a", "web")
		h.Update(pod)
		h.want("sync a")
		h.Update(deleted(pod, 5))
		h.want("terminate a 5", "clean up a")
		h.wantState("a", Finished)
		h.Remove(pod, 5)
		h.want("purge a")
	})
}

// After a restart the first that is heard of a pod may be that it is being deleted, and it may run.
func TestDeletedPodTerminatesAfterRestart(t *testing.T) {
	run(t, func(h *harness) {
		h.Update(deleted(newPod("a", "web"), 5))
		h.want("terminate a 5", "clean up a")
	})
}

func TestOneNameOneAfterTheOther(t *testing.T) {
	run(t, func(h *harness) {
		a, b, c := newPod("a", "web"), newPod("b", "web"), newPod("c", "web")
		terminated, cleaned := h.block("terminate a 30"), h.block("clean up a")
		h.Update(a)
		h.want("sync a")
		h.Update(b)
		h.Update(c)
		h.Update(newPod("d", "other"))
		h.want("sync d")
		h.wantState("b", Waiting)
		h.Remove(a, 30)
		h.want("terminate a 30")
		h.clock.Step(time.Minute)
		h.Sync("b")
		h.Sync("c")
		h.want()
		terminated()
		h.want("clean up a")
		h.wantState("b", Waiting)
		cleaned()
		synctest.Wait()
		// What is left of a doesn't keep b from starting, so their order is open.
		slices.Sort(h.fake.calls)
		h.want("purge a", "sync b")
		h.wantState("c", Waiting)
		h.Remove(b, 30)
		synctest.Wait()
		slices.Sort(h.fake.calls[2:])
		h.want("terminate b 30", "clean up b", "purge b", "sync c")
	})
}

// The same name in another namespace is another pod.
func TestNamespacesAreApart(t *testing.T) {
	run(t, func(h *harness) {
		h.Update(newPod("a", "web"))
		h.want("sync a")
		b := newPod("b", "web")
		b.Namespace = "other"
		h.Update(b)
		h.want("sync b")
	})
}

func TestRemovedWaitingPodLeavesTheQueue(t *testing.T) {
	run(t, func(h *harness) {
		a, b, c := newPod("a", "web"), newPod("b", "web"), newPod("c", "web")
		h.Update(a)
		h.want("sync a")
		h.Update(b)
		h.Update(c)
		h.Remove(b, 30)
		h.want("terminate b 30", "clean up b", "purge b")
		h.wantGone("b")
		h.wantState("c", Waiting)
		h.Remove(a, 30)
		synctest.Wait()
		slices.Sort(h.fake.calls[2:])
		h.want("terminate a 30", "clean up a", "purge a", "sync c")
	})
}

// A pod that is only found running is stopped before another of its name starts.
func TestOrphanHoldsItsName(t *testing.T) {
	run(t, func(h *harness) {
		terminated := h.block("terminate orphan 1")
		h.Remove(newPod("orphan", "web"), 0)
		h.want("terminate orphan 1")
		h.Update(newPod("a", "web"))
		h.want()
		h.wantState("a", Waiting)
		terminated()
		synctest.Wait()
		slices.Sort(h.fake.calls[1:])
		h.want("clean up orphan", "purge orphan", "sync a")
		h.wantGone("orphan")
	})
}

func TestLatestUpdateWins(t *testing.T) {
	run(t, func(h *harness) {
		release := h.block("sync a:v1")
		h.Update(version(newPod("a", "web"), "v1"))
		h.want("sync a:v1")
		h.Update(version(newPod("a", "web"), "v2"))
		h.Update(version(newPod("a", "web"), "v3"))
		h.want()
		release()
		h.want("sync a:v3")
	})
}

// A change doesn't break off the sync under way: that would do half the work again and again. A removal does.
func TestContextOfSyncPod(t *testing.T) {
	run(t, func(h *harness) {
		var last context.Context
		h.plan("sync a", func(ctx context.Context) (Result, error) {
			last = ctx //nolint:fatcontext // The test looks at it afterwards.
			<-ctx.Done()
			return Result{}, ctx.Err()
		})
		h.Update(newPod("a", "web"))
		h.want("sync a")
		h.Update(newPod("a", "web"))
		h.Sync("a")
		h.want()
		if last.Err() != nil {
			t.Fatal("an update ended the context of SyncPod")
		}
		h.Remove(newPod("a", "web"), 30)
		h.want("terminate a 30", "clean up a", "purge a")
		if h.log.Len() > 0 {
			t.Errorf("logged %q; want nothing: it failed because it was told to stop", h.log)
		}
	})
}

// A worker keeps nothing of a step once that is done.
func TestContextEndsWithTheStep(t *testing.T) {
	run(t, func(h *harness) {
		var last context.Context
		h.plan("sync a", func(ctx context.Context) (Result, error) {
			last = ctx //nolint:fatcontext // The test looks at it afterwards.
			return Result{}, ctx.Err()
		})
		h.Update(newPod("a", "web"))
		h.want("sync a")
		if last.Err() == nil {
			t.Error("the context of SyncPod goes on after it")
		}
	})
}

func TestShorterGraceInterrupts(t *testing.T) {
	tests := []struct {
		name    string
		shorten func(h *harness, grace int64)
	}{
		{"by Remove", func(h *harness, grace int64) { h.Remove(newPod("a", "web"), grace) }},
		{"by a deletion", func(h *harness, grace int64) { h.Update(deleted(newPod("a", "web"), grace)) }},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			run(t, func(h *harness) {
				h.Update(newPod("a", "web"))
				h.want("sync a")
				h.block("terminate a 30")
				h.block("terminate a 5")
				tt.shorten(h, 30)
				h.want("terminate a 30")
				tt.shorten(h, 30)
				tt.shorten(h, 60)
				h.want()
				tt.shorten(h, 5)
				h.want("terminate a 5")
				if h.log.Len() > 0 {
					t.Errorf("logged %q; want nothing", h.log)
				}
			})
		})
	}
}

func TestSameUIDWaitsForItsOwnEnd(t *testing.T) {
	run(t, func(h *harness) {
		v1, v2, v3 := version(newPod("a", "web"), "v1"), version(newPod("a", "web"), "v2"), version(newPod("a", "web"), "v3")
		terminated := h.block("terminate a:v1 30")
		h.Update(v1)
		h.want("sync a:v1")
		h.Remove(v1, 30)
		h.Update(v2)
		h.Update(v3)
		h.want("terminate a:v1 30")
		terminated()
		h.want("clean up a:v1", "purge a:v1", "sync a:v3")
		if got, _ := h.Get("a"); got.Removed || got.State != Syncing || got.Pod != v3 {
			t.Errorf("reborn as %+v", got)
		}
	})
}

// The new incarnation takes its place behind those that already wait for the name.
func TestSameUIDQueuesUpAgain(t *testing.T) {
	run(t, func(h *harness) {
		a, b := newPod("a", "web"), newPod("b", "web")
		h.Update(a)
		h.want("sync a")
		h.Update(b)
		terminated := h.block("terminate a 30")
		h.Remove(a, 30)
		h.Update(a)
		h.want("terminate a 30")
		terminated()
		synctest.Wait()
		slices.Sort(h.fake.calls)
		h.want("clean up a", "purge a", "sync b")
		h.wantState("a", Waiting)
		h.Remove(b, 30)
		synctest.Wait()
		slices.Sort(h.fake.calls[2:])
		h.want("terminate b 30", "clean up b", "purge b", "sync a")
	})
}

func TestSameUIDRemovedAgain(t *testing.T) {
	run(t, func(h *harness) {
		v1, v2 := version(newPod("a", "web"), "v1"), version(newPod("a", "web"), "v2")
		terminated := h.block("terminate a:v1 30")
		h.Update(v1)
		h.want("sync a:v1")
		h.Remove(v1, 30)
		h.Update(v2)
		h.Remove(v2, 30)
		h.want("terminate a:v1 30")
		terminated()
		h.want("clean up a:v1", "purge a:v1")
		h.wantGone("a")
	})
}

func TestAll(t *testing.T) {
	run(t, func(h *harness) {
		h.Update(newPod("a", "web"))
		h.Update(newPod("b", "web"))
		h.want("sync a")
		states := map[string]State{}
		for _, s := range h.All() {
			states[string(s.UID())] = s.State
		}
		if len(states) != 2 || states["a"] != Syncing || states["b"] != Waiting {
			t.Errorf("All shows %v", states)
		}
	})
}

// Stop ends what is under way and leaves the pods as they are: nothing is terminated. That all goroutines end is seen by the
// bubble, which wouldn't end either.
func TestStopLeavesPodsAlone(t *testing.T) {
	run(t, func(h *harness) {
		h.block("sync a")
		h.block("terminate b 30")
		h.Update(newPod("a", "web"))
		h.want("sync a")
		h.Update(newPod("b", "job"))
		h.want("sync b")
		h.Remove(newPod("b", "job"), 30)
		h.want("terminate b 30")
		h.Update(newPod("c", "web"))
		h.Stop()
		h.want()
		if h.log.Len() > 0 {
			t.Errorf("logged %q; want nothing", h.log)
		}
	})
}
