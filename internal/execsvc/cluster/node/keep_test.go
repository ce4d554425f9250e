package node

import (
	"context"
	"errors"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	v1 "k8s.io/api/core/v1"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/podstream/podstream/internal/execsvc/decide/nodestatus"
)

// While nothing changes, a node is heard of by its lease, and by its status every five minutes.
func TestQuietNode(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		w.run(t)
		w.api.taken()
		pass(10 * time.Hour)
		calls := w.api.taken()
		if n := calls["PATCH node"]; n < 118 || n > 121 {
			t.Errorf("%d patches in ten hours; want one every five minutes, but for the first", n)
		}
		if n := calls["GET node"] + calls["POST node"]; n > 0 {
			t.Errorf("calls: %v", calls)
		}
		l, renewed := w.api.held()
		for i, at := range renewed[1:] {
			if gap := at.Sub(renewed[i]); gap < 10*time.Second || gap > 10500*time.Millisecond {
				t.Fatalf("the lease was renewed after %v", gap)
			}
		}
		if *l.Spec.HolderIdentity != "n1" || *l.Spec.LeaseDurationSeconds != 40 || l.Namespace != "kube-node-lease" ||
			l.OwnerReferences[0].UID != w.api.now().UID {
			t.Errorf("the lease is %+v", l)
		}
	})
}

// The first report after a change comes after a time of its own, so that many nodes don't report together.
func TestReportsAreSpread(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		n := New(w.cfg)
		seen := map[bool]int{}
		for range 1000 {
			d := n.newDelay()
			if d < -150*time.Second || d > 150*time.Second {
				t.Fatalf("a delay of %v", d)
			}
			seen[d < 0]++
		}
		if seen[true] < 400 || seen[false] < 400 {
			t.Errorf("delays below and above zero: %v", seen)
		}
	})
}

// A node that isn't ready yet reports that, and reports at once when it is.
func TestFirstReady(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		w.network = false
		n := w.run(t)
		got := w.api.now()
		if ready(got) != v1.ConditionFalse {
			t.Fatalf("it is Ready %s", ready(got))
		}
		pass(300 * time.Millisecond)
		w.set(func() { w.network = true })
		n.Wake()
		synctest.Wait()
		if got := ready(w.api.now()); got != v1.ConditionTrue {
			t.Errorf("it is Ready %s", got)
		}
		if got := w.takeEvents(); !slices.Contains(got, "NodeReady") {
			t.Errorf("events %v", got)
		}
	})
}

// A change with a Wake is posted at once, and many of them at most once a second.
func TestWake(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		n := w.run(t)
		pass(2 * time.Second)
		w.api.taken()
		w.set(func() { w.pressure.Memory = true })
		n.Wake()
		synctest.Wait()
		if got := nodestatus.Condition(&w.api.now().Status, v1.NodeMemoryPressure); got != v1.ConditionTrue {
			t.Errorf("MemoryPressure is %s", got)
		}
		for i := range 30 {
			w.set(func() { w.pressure.Memory = i%2 == 1 })
			n.Wake()
			pass(100 * time.Millisecond)
		}
		if calls := w.api.taken(); calls["PATCH node"] > 4 {
			t.Errorf("calls in three seconds: %v", calls)
		}
		pass(time.Second)
		if got := nodestatus.Condition(&w.api.now().Status, v1.NodeMemoryPressure); got != v1.ConditionTrue {
			t.Errorf("in the end MemoryPressure is %s", got)
		}
		// A change without a Wake is found within an interval.
		w.set(func() { w.pressure.Memory = false })
		pass(10 * time.Second)
		if got := nodestatus.Condition(&w.api.now().Status, v1.NodeMemoryPressure); got != v1.ConditionFalse {
			t.Errorf("ten seconds later MemoryPressure is %s", got)
		}
	})
}

func TestConflicts(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		n := w.run(t)
		pass(2 * time.Second)
		post := func(conflicts int, pressed bool) {
			w.api.mu.Lock()
			w.api.conflicts = conflicts
			w.api.mu.Unlock()
			w.set(func() { w.pressure.PID = pressed })
			n.Wake()
			synctest.Wait()
		}
		post(tries-1, true)
		if got := nodestatus.Condition(&w.api.now().Status, v1.NodePIDPressure); got != v1.ConditionTrue || w.logged("level=WARN") != 0 {
			t.Errorf("after %d conflicts: %s, %s", tries-1, got, w.log.String())
		}
		pass(2 * time.Second)
		post(tries, false)
		if got := nodestatus.Condition(&w.api.now().Status, v1.NodePIDPressure); got != v1.ConditionTrue || w.logged("can't be posted") != 1 {
			t.Errorf("after %d conflicts: %s, %s", tries, got, w.log.String())
		}
		pass(time.Second)
		if got := nodestatus.Condition(&w.api.now().Status, v1.NodePIDPressure); got != v1.ConditionFalse || w.logged("posted again") != 1 {
			t.Errorf("a second later: %s, %s", got, w.log.String())
		}
	})
}

// A Node that another client has recreated unseen gets a whole status and not a part of one.
func TestAnotherNodeOfThatName(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		n := w.run(t)
		pass(2 * time.Second)
		w.api.mu.Lock()
		w.api.node.UID, w.api.node.Status = "another", v1.NodeStatus{}
		w.api.mu.Unlock()
		w.set(func() { w.pressure.PID = true })
		n.Wake()
		synctest.Wait()
		got := w.api.now()
		if len(got.Status.Conditions) != 4 || len(got.Status.Addresses) != 2 || n.Node().UID != "another" {
			t.Errorf("the status is %+v", got.Status)
		}
	})
}

// What the cluster decides about the node is passed on at once, and again while it can't be put into use.
func TestWhatTheClusterDecides(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		var given []string
		broken := true
		w.machine.PodCIDRs = func(_ context.Context, cidrs string) error {
			w.mu.Lock()
			defer w.mu.Unlock()
			given = append(given, cidrs)
			if broken {
				return errors.New("not now")
			}
			return nil
		}
		w.run(t)
		w.takeEvents()
		pass(5 * time.Second)
		w.api.change(func(node *v1.Node) {
			node.Spec.PodCIDRs, node.Spec.Unschedulable = []string{"10.1.0.0/24", "fd00:1::/64"}, true
		})
		synctest.Wait()
		if diff := cmp.Diff([]string{"NodeNotSchedulable"}, w.takeEvents()); diff != "" {
			t.Errorf("events (-want +got):\n%s", diff)
		}
		pass(20 * time.Second)
		w.set(func() { broken = false })
		pass(time.Hour)
		if diff := cmp.Diff(slices.Repeat([]string{"10.1.0.0/24,fd00:1::/64"}, 4), given); diff != "" {
			t.Errorf("ranges (-want +got):\n%s", diff)
		}
		if w.logged("can't be put into use") != 1 || w.logged("are in use") != 1 {
			t.Errorf("log:\n%s", w.log.String())
		}
		w.api.change(func(node *v1.Node) { node.Spec.Unschedulable = false })
		// The watch may just have ended, and begins again after a pause.
		pass(time.Minute)
		if diff := cmp.Diff([]string{"NodeSchedulable"}, w.takeEvents()); diff != "" {
			t.Errorf("events (-want +got):\n%s", diff)
		}
	})
}

// A part of the status that a server doesn't have isn't posted every ten seconds.
func TestServerDropsAField(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		w.cfg.DeclaredFeatures = func(*runtimeapi.RuntimeFeatures) []string { return []string{"A"} }
		w.api.drops = func(node *v1.Node) { node.Status.DeclaredFeatures = nil }
		n := w.run(t)
		pass(time.Minute)
		w.api.taken()
		pass(time.Hour + 2*time.Second)
		if calls := w.api.taken(); calls["PATCH node"] > 13 {
			t.Errorf("%d patches in an hour; want one every five minutes", calls["PATCH node"])
		}
		w.set(func() { w.pressure.Disk = true })
		n.Wake()
		synctest.Wait()
		if got := nodestatus.Condition(&w.api.now().Status, v1.NodeDiskPressure); got != v1.ConditionTrue {
			t.Errorf("DiskPressure is %s", got)
		}
	})
}

// The state of a server that was restored from a backup counts, and so do late events of its watch.
func TestOlderVersions(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		n := w.run(t)
		pass(time.Minute + 2*time.Second)
		late := n.Node().DeepCopy()
		w.set(func() { w.pressure.PID = true })
		n.Wake()
		synctest.Wait()
		n.changed(late, n.see)
		if nodestatus.Condition(&n.Node().Status, v1.NodePIDPressure) != v1.ConditionTrue {
			t.Error("what was told late counts")
		}
		w.api.goAway(true)
		w.api.mu.Lock()
		w.api.node, w.api.version = late, 1
		w.api.node.ResourceVersion = "1"
		w.api.mu.Unlock()
		w.api.goAway(false)
		pass(2 * time.Minute)
		if nodestatus.Condition(&w.api.now().Status, v1.NodePIDPressure) != v1.ConditionTrue {
			t.Error("the state before isn't there again")
		}
	})
}

// Images are listed twice a minute, and not while the runtime is silent.
func TestImagesAreListedSeldom(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		asked, down := 0, false
		w.machine.Images = func(context.Context) ([]*runtimeapi.Image, error) {
			w.mu.Lock()
			defer w.mu.Unlock()
			if asked++; asked == 3 {
				return nil, errors.New("busy")
			}
			return []*runtimeapi.Image{{Id: "1", Size: 7, RepoTags: []string{"a"}}}, nil
		}
		w.machine.Runtime = func() nodestatus.Runtime {
			state := w.runtime()
			w.mu.Lock()
			defer w.mu.Unlock()
			if down {
				state = nodestatus.Runtime{}
			}
			return state
		}
		w.run(t)
		pass(10 * time.Minute)
		if asked < 18 || asked > 21 {
			t.Errorf("they were listed %d times in ten minutes", asked)
		}
		w.set(func() { asked, down = 100, true })
		pass(10 * time.Minute)
		if images := w.api.now().Status.Images; asked != 100 || len(images) != 1 || images[0].SizeBytes != 7 {
			t.Errorf("%d, images %v", asked, images)
		}
	})
}
