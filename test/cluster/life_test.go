package cluster

import (
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/podstream/podstream/test/rig"
)

// A client's change to a pod produces exactly the op that describes it.
func TestLife(t *testing.T) {
	n := newNode(t, "life")
	s := n.watch(t)
	client := plane.client(t)
	var pod *corev1.Pod
	check(t, "a node without pods becomes ready", s.ready)
	check(t, "a pod that is created: ADD", func(t *testing.T) {
		pod = n.create(t, client, "web")
		got := decode(t, s.expect(t, "ADD web")["ADD web"], pod)
		if got.Labels["version"] != "1" || got.Spec.Containers[0].Image != pod.Spec.Containers[0].Image {
			t.Errorf("the pod came as %v", got)
		}
	})
	check(t, "its labels: UPDATE", func(t *testing.T) {
		relabel(t, client, "web", "2")
		if got := decode(t, s.expect(t, "UPDATE web")["UPDATE web"], pod); got.Labels["version"] != "2" {
			t.Errorf("the labels came as %v", got.Labels)
		}
	})
	check(t, "its status alone: RECONCILE", func(t *testing.T) {
		pods := client.CoreV1().Pods(namespace)
		changed := rig.Get(pods.Get(t.Context(), "web", metav1.GetOptions{}))(t)
		changed.Status.Phase, changed.Status.Message = corev1.PodRunning, "from another agent"
		rig.Get(pods.UpdateStatus(t.Context(), changed, metav1.UpdateOptions{}))(t)
		got := decode(t, s.expect(t, "RECONCILE web")["RECONCILE web"], pod)
		if got.Status.Phase != corev1.PodRunning || got.Status.Message != changed.Status.Message {
			t.Errorf("the status came as %v", got.Status)
		}
	})
	check(t, "a pod of another node: nothing", func(t *testing.T) {
		createOn(t, "elsewhere", client, "elsewhere")
		n.create(t, client, "next")
		s.expect(t, "ADD next") // and not the other one
	})
	check(t, "its deletion with grace: DELETE", func(t *testing.T) {
		remove(t, client, "web")
		if got := decode(t, s.expect(t, "DELETE web")["DELETE web"], pod); got.DeletionTimestamp == nil || *got.DeletionGracePeriodSeconds != 30 {
			t.Errorf("deletion timestamp %v, grace period %v", got.DeletionTimestamp, got.DeletionGracePeriodSeconds)
		}
	})
	check(t, "its end: REMOVE", func(t *testing.T) {
		vanish(t, client, "web")
		if uid := s.expectEnd(t, "web").GetRef().GetUid(); uid != string(pod.UID) {
			t.Errorf("REMOVE of UID %s; want %s", uid, pod.UID)
		}
	})
	check(t, "another one of its name: REMOVE of the old, ADD of the new", func(t *testing.T) {
		old := n.create(t, client, "web")
		s.expect(t, "ADD web")
		vanish(t, client, "web")
		pod = n.create(t, client, "web")
		// It is one revision if podconfigd read both changes at once, otherwise two.
		r := s.nextAfterEnd(t, "web")
		if len(r.ops) == 1 {
			more := s.next(t)
			r.ops, r.pods = append(r.ops, more.ops...), append(r.pods, more.pods...)
		}
		if len(r.ops) != 2 || r.ops[0] != "REMOVE web" || r.ops[1] != "ADD web" || r.pods[0].GetRef().GetUid() != string(old.UID) {
			t.Fatalf("the ops are %v of %v; want REMOVE of %s, then ADD", r.ops, r.pods, old.UID)
		}
		decode(t, r.pods[1], pod)
	})
	check(t, "the first pods came by a WatchList where the server has it, else by a list; nothing was forbidden", func(t *testing.T) {
		requests := plane.requests(t, n.user, "pods")
		listed := slices.ContainsFunc(requests, func(r request) bool { return r.verb == "list" })
		if countRestarts(requests) == 0 || listed == plane.Etcd.ReportsProgress() {
			t.Errorf("podconfigd's requests are %v, with an etcd %v", requests, plane.Etcd.Version)
		}
		for _, r := range requests {
			if r.code == 401 || r.code == 403 {
				t.Errorf("%s with %v: %d", r.verb, r.query, r.code)
			}
		}
	})
}
