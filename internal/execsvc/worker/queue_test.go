package worker

import (
	"testing"
	"time"
)

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
		// What is left of a doesn't keep b from starting, so their order is open.
		h.wantLoosely(0, "purge a", "sync b")
		h.wantState("c", Waiting)
		h.Remove(b, 30)
		h.wantLoosely(2, "terminate b 30", "clean up b", "purge b", "sync c")
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
		h.wantLoosely(2, "terminate a 30", "clean up a", "purge a", "sync c")
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
		h.wantLoosely(1, "clean up orphan", "purge orphan", "sync a")
		h.wantGone("orphan")
	})
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
		h.wantLoosely(0, "clean up a", "purge a", "sync b")
		h.wantState("a", Waiting)
		h.Remove(b, 30)
		h.wantLoosely(2, "terminate b 30", "clean up b", "purge b", "sync a")
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
