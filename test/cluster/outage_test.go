package cluster

import (
	"context"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/podstream/podstream/test/cluster/control"
	"github.com/podstream/podstream/test/rig"
)

// While the server restarts, as in an upgrade, its pods are kept. Later changes are received.
func TestServerRestart(t *testing.T) {
	n := newNode(t, "restart")
	s := n.watch(t)
	s.ready(t)
	n.create(t, plane.client(t), "restart-a")
	s.expect(t, "ADD restart-a")
	n.create(t, plane.client(t), "restart-b")
	s.expect(t, "ADD restart-b")
	check(t, "the server stops: the source reports it and keeps its pods", func(t *testing.T) {
		plane.stop(t)
		n.awaitSource(t, true, 2)
	})
	check(t, "the server starts: the source has no error, and there was no op", func(t *testing.T) {
		plane.resume(t)
		n.awaitSource(t, false, 2)
		relabel(t, plane.client(t), "restart-a", "2")
		s.expect(t, "UPDATE restart-a")
	})
	check(t, "pods are added and removed as before", func(t *testing.T) {
		vanish(t, plane.client(t), "restart-b")
		s.expectEnd(t, "restart-b")
		n.create(t, plane.client(t), "restart-b")
		s.expect(t, "ADD restart-b")
	})
}

// The server is away until its history is compacted: podconfigd can't resume its watch, and must list. All
// changes that it missed come as one revision.
func TestAbsence(t *testing.T) {
	n := newNode(t, "absence")
	s := n.watch(t)
	s.ready(t)
	pods := map[string]*corev1.Pod{}
	for _, name := range []string{"keep", "gone", "changed", "again", "dying"} {
		pods[name] = n.create(t, plane.client(t), name)
		s.expect(t, "ADD "+name)
	}
	last := pods["dying"].ResourceVersion
	lists := countRestarts(plane.requests(t, n.user, "pods"))
	var again *corev1.Pod
	check(t, "the server crashes: the pods are kept", func(t *testing.T) {
		plane.Kill()
		n.awaitSource(t, true, len(pods))
	})
	back := time.After(*absence)
	check(t, "meanwhile pods change, and etcd is compacted", func(t *testing.T) {
		plane.behind(t, func(client kubernetes.Interface) {
			vanish(t, client, "gone")
			vanish(t, client, "again")
			again = n.create(t, client, "again")
			relabel(t, client, "changed", "2")
			remove(t, client, "dying")
			n.create(t, client, "new")
		})
		rig.Must(t, plane.Etcd.Compact(t.Context()))
		<-back
		n.awaitSource(t, true, len(pods))
	})
	check(t, "the server is back: all changes come in one revision", func(t *testing.T) {
		plane.resume(t)
		got := s.expect(t, "REMOVE again", "REMOVE gone", "ADD again", "ADD new", "UPDATE changed", "DELETE dying")
		if old := got["REMOVE again"].GetRef().GetUid(); old != string(pods["again"].UID) {
			t.Errorf("REMOVE again is of UID %s; want %s", old, pods["again"].UID)
		}
		decode(t, got["ADD again"], again)
		n.awaitSource(t, false, len(pods))
	})
	check(t, "podconfigd had to list again: its version was too old", func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), control.Bound)
		defer cancel()
		w := rig.Get(plane.client(t).CoreV1().Pods(namespace).Watch(ctx, metav1.ListOptions{ResourceVersion: last}))(t)
		defer w.Stop()
		event := <-w.ResultChan()
		if err := apierrors.FromObject(event.Object); !apierrors.IsResourceExpired(err) && !apierrors.IsGone(err) {
			t.Errorf("a watch from version %s begins with %s %v; want that it is too old", last, event.Type, err)
		}
		if now := countRestarts(plane.requests(t, n.user, "pods")); now <= lists {
			t.Errorf("podconfigd listed %d times before the absence, and %d times in all", lists, now)
		}
	})
	check(t, "the watch goes on", func(t *testing.T) {
		vanish(t, plane.client(t), "dying")
		s.expectEnd(t, "dying")
	})
}

// podconfigd restarts while the server is away: its stored pods are served as stale, and settled when the
// server is back.
func TestPodconfigdRestart(t *testing.T) {
	n := newNode(t, "cold")
	s := n.watch(t)
	s.ready(t)
	keep := n.create(t, plane.client(t), "cold-keep")
	s.expect(t, "ADD cold-keep")
	n.create(t, plane.client(t), "cold-gone")
	s.expect(t, "ADD cold-gone")
	check(t, "started without the server: RESTORE of both pods, as stale", func(t *testing.T) {
		plane.Kill()
		n.daemon.Kill()
		n.start(t)
		n.awaitSource(t, true, 2)
	})
	s = n.watch(t)
	check(t, "a new consumer receives them, and the source isn't ready", func(t *testing.T) {
		first := s.initial(t)
		if got := sorted(first.ops); len(got) != 2 || got[0] != "RESTORE cold-gone" || got[1] != "RESTORE cold-keep" || first.apiReady {
			t.Fatalf("the initial state is %q, ready is %t; want both pods by RESTORE of a source that isn't ready", first.ops, first.apiReady)
		}
		for _, p := range first.pods {
			if !p.GetStale() {
				t.Errorf("pod %v isn't stale", p.GetRef())
			}
		}
	})
	check(t, "the server is back: the pod that was deleted meanwhile is removed, the source is ready", func(t *testing.T) {
		plane.behind(t, func(client kubernetes.Interface) { vanish(t, client, "cold-gone") })
		plane.resume(t)
		s.expect(t, "REMOVE cold-gone", "READY")
	})
	check(t, "the other pod has not changed, and is no longer stale", func(t *testing.T) {
		p := n.pod(t, "cold-keep")
		if p.GetStale() {
			t.Error("it is stale")
		}
		decode(t, p, keep)
		relabel(t, plane.client(t), "cold-keep", "2")
		s.expect(t, "UPDATE cold-keep")
	})
}
