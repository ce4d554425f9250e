package node

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/podstream/podstream/internal/execsvc/decide/nodestatus"
)

// takenForDead has the cluster mark the node as it marks one whose lease has run out.
func takenForDead(node *v1.Node) {
	for i := range node.Status.Conditions {
		node.Status.Conditions[i].Status, node.Status.Conditions[i].Reason = v1.ConditionUnknown, "NodeStatusUnknown"
	}
}

// A node that was taken for dead while it couldn't be heard says within an interval that it isn't, and at once if it can watch.
func TestTakenForDead(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		w.run(t)
		pass(5 * time.Second)
		w.api.change(takenForDead)
		synctest.Wait()
		if got := ready(w.api.now()); got != v1.ConditionTrue {
			t.Errorf("a node that watches is Ready %s", got)
		}
		for range 5 {
			w.api.goAway(true)
			pass(10 * time.Minute)
			w.api.change(takenForDead)
			w.api.goAway(false)
			pass(lastWatchBackoff + floor)
			if got := ready(w.api.now()); got != v1.ConditionTrue {
				t.Fatalf("an interval after the server is back the node is Ready %s", got)
			}
		}
	})
}

// If a server accepts a watch and never answers, the object is listed again.
func TestWatchHangs(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		w.api.hangs = true
		w.run(t)
		pass(time.Minute)
		w.api.taken()
		pass(time.Hour)
		if got := w.api.taken()["LIST node"]; got < 5 || got > 12 {
			t.Errorf("the object was listed %d times in an hour; want once in five to ten minutes", got)
		}
	})
}

// A container runtime that hangs over the pods' address ranges doesn't block the status, which reports that.
func TestRuntimeHangsOverRanges(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		w.machine.PodCIDRs = func(ctx context.Context, _ string) error {
			<-ctx.Done()
			return ctx.Err()
		}
		n := w.run(t)
		pass(5 * time.Second)
		w.api.change(func(node *v1.Node) { node.Spec.PodCIDRs = []string{"10.1.0.0/24"} })
		pass(20 * time.Second)
		w.set(func() { w.pressure.Disk = true })
		n.Wake()
		pass(20 * time.Second)
		if got := nodestatus.Condition(&w.api.now().Status, v1.NodeDiskPressure); got != v1.ConditionTrue || w.logged("can't be posted") != 0 {
			t.Errorf("DiskPressure is %s; the log:\n%s", got, w.log.String())
		}
	})
}

// Two machines with one name are logged once, and once when that is over. A recreated Node isn't another machine's.
func TestTwoMachinesOfOneName(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		w.run(t)
		pass(time.Minute)
		w.api.remove()
		pass(time.Minute)
		if got := w.logged("another machine"); got != 0 {
			t.Errorf("it is told %d times that another machine posts, and none does", got)
		}
		for range 10 {
			w.api.change(func(node *v1.Node) { node.Status.NodeInfo.BootID = "b2" })
			pass(10 * time.Second)
		}
		if got := w.logged("level=WARN msg=\"another machine posts"); got != 1 || w.logged("boot ID b2") != 1 {
			t.Errorf("it is told %d times; the log:\n%s", got, w.log.String())
		}
		pass(time.Minute)
		if w.logged("no other machine") != 1 || w.api.now().Status.NodeInfo.BootID != "b1" {
			t.Errorf("it isn't over; the log:\n%s", w.log.String())
		}
	})
}
