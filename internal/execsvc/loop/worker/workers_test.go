package worker

import (
	"context"
	"testing"
	"time"
)

func TestAllSteps(t *testing.T) {
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

// A pod that has run to its end is stopped and cleaned up, and keeps its worker as long as it is desired.
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

// After a restart, the first update of a running pod may have a DeletionTimestamp.
func TestDeletedPodTerminatesAfterRestart(t *testing.T) {
	run(t, func(h *harness) {
		h.Update(deleted(newPod("a", "web"), 5))
		h.want("terminate a 5", "clean up a")
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

// An update doesn't cancel the current sync, which would never finish if updates come often. A removal does.
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
		h.wantNothingLogged() // It failed because its context ended.
	})
}

// The context of a step ends with the step.
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
				h.wantNothingLogged()
			})
		})
	}
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

// Stop cancels the current steps, and terminates no pod. The bubble ends only after all goroutines.
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
		h.wantNothingLogged()
	})
}
