package node

import (
	"runtime"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podstream/podstream/internal/execsvc/decide/nodestatus"
)

// A node isn't ready until the size of its disk is known, if pods' disk limits are enforced.
func TestNotReadyWithoutEphemeralStorage(t *testing.T) {
	for held, want := range map[bool]v1.ConditionStatus{true: v1.ConditionFalse, false: v1.ConditionTrue} {
		inWorld(t, func(t *testing.T, w *world) {
			w.noStorage, w.cfg.LocalStorage = true, held
			w.run(t)
			if got := ready(w.api.now()); got != want {
				t.Errorf("with localStorageCapacityIsolation %v Ready is %s; want %s", held, got, want)
			}
		})
	}
}

// An existing Node gets this node's values, and keeps those of other clients.
func TestTakeOver(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		w.labels = map[string]string{"topology.kubernetes.io/zone": "b", "disk": "ssd"}
		w.cfg.ProviderID, w.cfg.ResetExtended = "cloud://1", true
		w.api.add(&v1.Node{
			ObjectMeta: metav1.ObjectMeta{
				Name: "n1", UID: "old", Labels: map[string]string{"topology.kubernetes.io/zone": "a", "team": "x", "kubernetes.io/os": "plan9"},
				Annotations: map[string]string{attachAnnotation: "true", "kept": "yes"},
			},
			Spec: v1.NodeSpec{ProviderID: "cloud://0", Unschedulable: true},
			Status: v1.NodeStatus{
				Capacity: v1.ResourceList{"example.com/gpu": resource.MustParse("4"), "hugepages-2Mi": resource.MustParse("1Gi")},
				Addresses: []v1.NodeAddress{
					{Type: v1.NodeInternalIP, Address: "10.0.0.8"}, {Type: v1.NodeInternalIP, Address: "10.0.0.9"},
				},
				Conditions: []v1.NodeCondition{{Type: v1.NodeReady, Status: v1.ConditionUnknown}, {Type: "Foreign", Status: "True"}},
			},
		})
		w.run(t)
		got := w.api.now()
		labels := map[string]string{
			"kubernetes.io/hostname": "n1", "kubernetes.io/os": "linux", "kubernetes.io/arch": runtime.GOARCH,
			"topology.kubernetes.io/zone": "b", "team": "x",
		}
		if diff := cmp.Diff(labels, got.Labels); diff != "" {
			t.Errorf("labels (-want +got):\n%s", diff)
		}
		if diff := cmp.Diff(map[string]string{"kept": "yes"}, got.Annotations); diff != "" {
			t.Errorf("annotations (-want +got):\n%s", diff)
		}
		if gpus := got.Status.Capacity["example.com/gpu"]; !gpus.IsZero() {
			t.Errorf("there are %s devices; want none until they are offered", &gpus)
		}
		if _, there := got.Status.Capacity["hugepages-2Mi"]; there {
			t.Error("huge pages are left that the machine doesn't have")
		}
		addresses := []v1.NodeAddress{{Type: v1.NodeInternalIP, Address: "10.0.0.1"}, {Type: v1.NodeHostName, Address: "n1"}}
		if diff := cmp.Diff(addresses, got.Status.Addresses); diff != "" {
			t.Errorf("addresses (-want +got):\n%s", diff)
		}
		if ready(got) != v1.ConditionTrue || nodestatus.Condition(&got.Status, "Foreign") != v1.ConditionTrue || got.Spec.ProviderID != "cloud://0" {
			t.Errorf("the node is %+v", got)
		}
		if w.logged("another provider ID") != 1 {
			t.Error("the other provider ID isn't told")
		}
		want := []string{"NodeNotSchedulable", "NodeHasSufficientMemory", "NodeHasNoDiskPressure", "NodeHasSufficientPID", "NodeReady"}
		if diff := cmp.Diff(want, w.takeEvents()); diff != "" {
			t.Errorf("events (-want +got):\n%s", diff)
		}
		// What is offered from then on stays.
		w.api.change(func(node *v1.Node) { node.Status.Capacity["example.com/gpu"] = resource.MustParse("2") })
		pass(time.Hour)
		got = w.api.now()
		if gpus, free := got.Status.Capacity["example.com/gpu"], got.Status.Allocatable["example.com/gpu"]; gpus.Value() != 2 || free.Value() != 2 {
			t.Errorf("of %s devices %s are allocatable; want both 2", &gpus, &free)
		}
	})
}

// Without Register another client creates the object, and it gets only the labels that every node has.
func TestWaitsForTheObject(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		w.cfg.Register, w.labels = false, map[string]string{"disk": "ssd"}
		n := w.run(t)
		pass(time.Hour)
		if calls := w.api.taken(); calls["POST node"] != 0 || n.Node() != nil || w.logged("wait for the Node to be created") != 1 {
			t.Errorf("calls %v, node %v, told %d times", calls, n.Node(), w.logged("wait for the Node to be created"))
		}
		w.api.add(&v1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n1", UID: "theirs"}})
		pass(lastBackoff)
		got := w.api.now()
		labels := map[string]string{"kubernetes.io/os": "linux", "kubernetes.io/arch": runtime.GOARCH}
		if diff := cmp.Diff(labels, got.Labels); diff != "" || ready(got) != v1.ConditionTrue {
			t.Errorf("Ready %s, labels (-want +got):\n%s", ready(got), diff)
		}
	})
}

// TestUID: the channel is closed when the Node appears, goes, or is replaced, and not when it changes.
func TestUID(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		n := New(w.cfg)
		uid, changed := n.UID()
		for _, step := range []struct {
			do      func()
			uid     types.UID
			changes bool
		}{
			{func() { n.see(&v1.Node{ObjectMeta: metav1.ObjectMeta{UID: "a", ResourceVersion: "1"}}) }, "a", true},
			{func() { n.see(&v1.Node{ObjectMeta: metav1.ObjectMeta{UID: "a", ResourceVersion: "2"}}) }, "a", false},
			{func() { n.see(&v1.Node{ObjectMeta: metav1.ObjectMeta{UID: "z", ResourceVersion: "1"}}) }, "a", false},
			{func() { n.seeAgain(&v1.Node{ObjectMeta: metav1.ObjectMeta{UID: "b", ResourceVersion: "1"}}) }, "b", true},
			{func() { n.gone(&v1.Node{ObjectMeta: metav1.ObjectMeta{UID: "a"}}) }, "b", false},
			{func() { n.gone(&v1.Node{ObjectMeta: metav1.ObjectMeta{UID: "b"}}) }, "", true},
		} {
			before := uid
			step.do()
			closed := false
			select {
			case <-changed:
				closed = true
			default:
			}
			if uid, changed = n.UID(); uid != step.uid || closed != step.changes {
				t.Errorf("from %q: the UID is %q, changed %v; want %q, %v", before, uid, closed, step.uid, step.changes)
			}
		}
	})
}

// A Node that is deleted while its node runs is created again within one interval, and so is its lease.
func TestDeletedNodeIsRegisteredAgain(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		n := w.run(t)
		pass(time.Minute)
		old := w.api.now().UID
		w.api.remove()
		synctest.Wait()
		if n.Node() != nil {
			t.Error("it is still known")
		}
		pass(11 * time.Second)
		got := w.api.now()
		if got == nil || got.UID == old || ready(got) != v1.ConditionTrue || n.Node().UID != got.UID {
			t.Fatalf("the server has %+v; the node knows %v", got, n.Node())
		}
		pass(11 * time.Second)
		lease, _ := w.api.held()
		if owner := lease.OwnerReferences[0].UID; owner != got.UID {
			t.Errorf("the lease is of %s; want %s", owner, got.UID)
		}
	})
}

// A patch also shows it, if the watch is slow.
func TestDeletedNodeWithoutWatch(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		w.run(t)
		w.api.mu.Lock()
		w.api.node = nil
		w.api.mu.Unlock()
		w.set(func() { w.pressure.PID = true })
		pass(12 * time.Second)
		if got := w.api.now(); got == nil || nodestatus.Condition(&got.Status, v1.NodePIDPressure) != v1.ConditionTrue {
			t.Errorf("the server has %+v", got)
		}
	})
}

// A server that is away is no reason to be loud, nor to be late when it is back.
func TestServerIsAway(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		w.api.goAway(true)
		n := w.run(t)
		pass(time.Hour)
		if n.Node() != nil || w.logged("level=WARN") != 1 {
			t.Errorf("node %v, log:\n%s", n.Node(), w.log.String())
		}
		w.api.goAway(false)
		pass(lastBackoff)
		if got := w.api.now(); got == nil || ready(got) != v1.ConditionTrue || w.logged("the node is registered") != 1 {
			t.Fatalf("after %v the server has %+v", lastBackoff, got)
		}

		pass(time.Minute)
		w.set(w.log.Reset)
		w.api.goAway(true)
		w.set(func() { w.pressure.Disk = true })
		pass(time.Hour)
		if got := w.logged("level=WARN"); got != 3 {
			t.Errorf("%d troubles are told; want those of the status, the watch and the lease:\n%s", got, w.log.String())
		}
		w.api.goAway(false)
		before := time.Now()
		pass(11 * time.Second)
		got := w.api.now()
		lease, _ := w.api.held()
		if nodestatus.Condition(&got.Status, v1.NodeDiskPressure) != v1.ConditionTrue || lease.Spec.RenewTime.Time.Before(before) {
			t.Errorf("after 11 s: %+v, lease %+v", got.Status.Conditions, lease.Spec)
		}
		pass(lastWatchBackoff)
		if got := w.logged("level=INFO"); got != 3 {
			t.Errorf("the end of %d troubles is told; want 3:\n%s", got, w.log.String())
		}
		w.api.change(func(node *v1.Node) { node.Labels["new"] = "yes" })
		synctest.Wait()
		if n.Node().Labels["new"] != "yes" {
			t.Error("the watch isn't there again")
		}
	})
}

// An external cloud provider gets the node's addresses, and initializes the node first.
func TestExternalCloud(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		w.cfg.ExternalCloud, w.cfg.NodeIPs = true, addrs("10.0.0.1", "fd00::1")
		w.run(t)
		got := w.api.now()
		taints := []v1.Taint{{Key: uninitializedTaint, Value: "true", Effect: v1.TaintEffectNoSchedule}}
		if diff := cmp.Diff(taints, got.Spec.Taints); diff != "" {
			t.Errorf("taints (-want +got):\n%s", diff)
		}
		if diff := cmp.Diff(map[string]string{providedIPAnnotation: "10.0.0.1,fd00::1"}, got.Annotations); diff != "" {
			t.Errorf("annotations (-want +got):\n%s", diff)
		}
	})
	// Without one, what was said in its time goes.
	inWorld(t, func(t *testing.T, w *world) {
		w.cfg.NodeIPs = addrs("10.0.0.1")
		w.api.add(&v1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n1", UID: "old", Annotations: map[string]string{providedIPAnnotation: "10.0.0.9"}}})
		w.run(t)
		if got := w.api.now().Annotations; len(got) > 0 {
			t.Errorf("annotations %v", got)
		}
	})
}
