package node

import (
	"runtime"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// A new node is registered with its status, and Ready at once.
func TestRegister(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		w.labels = map[string]string{"disk": "ssd"}
		w.cfg.Taints = []v1.Taint{{Key: "only", Value: "some", Effect: v1.TaintEffectNoSchedule}}
		w.cfg.ProviderID, w.cfg.AttachDetach = "cloud://1", true
		n := w.run(t)
		got := w.api.now()
		labels := map[string]string{"kubernetes.io/hostname": "n1", "kubernetes.io/os": "linux", "kubernetes.io/arch": runtime.GOARCH, "disk": "ssd"}
		if diff := cmp.Diff(labels, got.Labels); diff != "" {
			t.Errorf("labels (-want +got):\n%s", diff)
		}
		if diff := cmp.Diff(v1.NodeSpec{ProviderID: "cloud://1", Taints: w.cfg.Taints}, got.Spec); diff != "" {
			t.Errorf("spec (-want +got):\n%s", diff)
		}
		if diff := cmp.Diff(map[string]string{attachAnnotation: "true"}, got.Annotations); diff != "" {
			t.Errorf("annotations (-want +got):\n%s", diff)
		}
		if ready(got) != v1.ConditionTrue || n.Node().UID != got.UID {
			t.Errorf("at the server %s, Ready %s; the node knows %s", got.UID, ready(got), n.Node().UID)
		}
		if diff := cmp.Diff([]string{"NodeHasSufficientMemory", "NodeHasNoDiskPressure", "NodeHasSufficientPID"}, w.takeEvents()); diff != "" {
			t.Errorf("events (-want +got):\n%s", diff)
		}
	})
}

// Labels that a node may not give itself are left out; all else goes on.
func TestRefusedLabels(t *testing.T) {
	deny := func(format string) func(string, *v1.Node, *v1.Node) string {
		return func(_ string, before, after *v1.Node) string {
			const name = "topology.kubernetes.io/zone"
			if before != nil && before.Labels[name] == after.Labels[name] || before == nil && after.Labels[name] == "" {
				return ""
			}
			return format + "node-restriction.kubernetes.io/x, " + name
		}
	}
	inWorld(t, func(t *testing.T, w *world) {
		w.labels = map[string]string{"topology.kubernetes.io/zone": "b", "disk": "ssd", "node-restriction.kubernetes.io/x": "y"}
		w.api.deny = deny(`nodes "n1" is forbidden: node "n1" is not allowed to set the following labels: `)
		w.run(t)
		pass(time.Minute)
		got := w.api.now()
		if ready(got) != v1.ConditionTrue || got.Labels["disk"] != "ssd" || len(got.Labels) != 4 || w.logged("level=ERROR") != 1 {
			t.Errorf("labels %v, log:\n%s", got.Labels, w.log.String())
		}
		// Nor are they tried again on what comes after it.
		w.api.remove()
		pass(time.Minute)
		if w.api.now() == nil || w.logged("level=ERROR") != 1 || w.logged("level=WARN") != 0 {
			t.Errorf("log:\n%s", w.log.String())
		}
	})
	inWorld(t, func(t *testing.T, w *world) {
		w.labels = map[string]string{"topology.kubernetes.io/zone": "b", "topology.kubernetes.io/region": "r"}
		w.api.deny = deny("is not allowed to modify labels: ")
		w.api.add(&v1.Node{ObjectMeta: metav1.ObjectMeta{
			Name: "n1", UID: "old", Labels: map[string]string{"topology.kubernetes.io/zone": "a"},
		}})
		w.run(t)
		got := w.api.now()
		if got.Labels["topology.kubernetes.io/zone"] != "a" || got.Labels["topology.kubernetes.io/region"] != "r" || ready(got) != v1.ConditionTrue {
			t.Errorf("labels %v, log:\n%s", got.Labels, w.log.String())
		}
	})
}

// A node that may not create its object still updates one that another client has created.
func TestMayNotCreate(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		w.api.deny = func(method string, _, _ *v1.Node) string {
			if method == "POST" {
				return "nodes is forbidden"
			}
			return ""
		}
		w.run(t)
		pass(time.Minute)
		if w.api.now() != nil || w.logged("nodes is forbidden") != 1 {
			t.Errorf("log:\n%s", w.log.String())
		}
		w.api.add(&v1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n1", UID: "theirs"}})
		pass(lastBackoff)
		if ready(w.api.now()) != v1.ConditionTrue {
			t.Errorf("log:\n%s", w.log.String())
		}
	})
}
