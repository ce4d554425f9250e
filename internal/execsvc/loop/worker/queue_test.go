package worker

import (
	"testing"
	"time"
)

func TestPodsOfOneNameRunInOrder(t *testing.T) {
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
		// The purge of a doesn't delay the start of b: the order of the calls is open.
		h.wantLoosely(0, "purge a", "sync b")
		h.wantState("c", Waiting)
		h.Remove(b, 30)
		h.wantLoosely(2, "terminate b 30", "clean up b", "purge b", "sync c")
	})
}

// Pods of one name in two namespaces run at once.
func TestSameNameInTwoNamespaces(t *testing.T) {
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
		h.wantLoosely(2, "terminate a 30", "clean up a", "purge a", "sync c")
	})
}

// An orphaned pod is stopped before another pod of its name starts.
func TestOrphanHoldsItsName(t *testing.T) {
	run(t, func(h *harness) {
		terminated := h.block("terminate orphan 1")
		h.Remove(newPod("orphan", "web"), 0)
		h.want("terminate orphan 1")
		h.Update(newPod("a", "web"))
		h.want()
		h.wantState("a", Waiting)
		terminated()
		h.wantLoosely(1, "clean up orphan", "purge orphan", "sync a")
		h.wantGone("orphan")
	})
}

func TestPodAddedAgainWaitsForItsEnd(t *testing.T) {
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
			t.Errorf("the successor is %+v", got)
		}
	})
}

// A pod that is added again is queued behind the pods that already wait for the name.
func TestPodAddedAgainIsQueuedLast(t *testing.T) {
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
		h.wantLoosely(0, "clean up a", "purge a", "sync b")
		h.wantState("a", Waiting)
		h.Remove(b, 30)
		h.wantLoosely(2, "terminate b 30", "clean up b", "purge b", "sync a")
	})
}

func TestPodAddedAgainIsRemovedAgain(t *testing.T) {
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

// A worker without a step creates no context: no call would end it, and each resync of a finished pod would leak one.
func TestIdleWorkerCreatesNoContext(t *testing.T) {
	run(t, func(h *harness) {
		h.Update(newPod("a", "web"))
		h.Update(newPod("b", "web"))
		h.want("sync a")
		ctx, s, _, _ := h.next("b", h.workers["b"])
		if s != stepNothing || ctx != h.ctx {
			t.Errorf("step %v with a context of its own: %t; want nothing, and none", s, ctx != h.ctx)
		}
	})
}
