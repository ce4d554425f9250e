package execsvc

import (
	"fmt"
	"strings"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	"github.com/podstream/podstream/client"
	"github.com/podstream/podstream/internal/execsvc/loop/worker"
	"github.com/podstream/podstream/internal/execsvc/pod/podmeta"
	"github.com/podstream/podstream/internal/execsvc/pod/podview"
	"github.com/podstream/podstream/internal/simruntime/simnode"
)

// runPods starts an agent with a bound of one removal in a minute, and pods that run.
func runPods(t *testing.T, source string, count int) (*node, *testAgent, []*v1.Pod) {
	t.Helper()
	n := newNode(t)
	n.maxRemovals = 1
	l := n.start()
	l.deliver(synced(client.Source{Name: source, Ready: true}))
	var pods []*v1.Pod
	for i := range count {
		pod := newPod(types.UID(fmt.Sprint("uid-", i)), fmt.Sprint("p", i), source)
		pods = append(pods, pod)
		l.deliver(ops(change(client.Add, true, pod)))
	}
	for _, pod := range pods {
		l.awaitRunning(pod.UID)
	}
	n.takeChanges()
	return n, l, pods
}

// stops counts the containers that were stopped since takeChanges.
func (n *node) stops() int {
	count := 0
	for _, c := range n.seenChanges() {
		if strings.HasPrefix(c, "StopContainer") {
			count++
		}
	}
	return count
}

// TestRemovalsInDisguise: versions of pods that end them count as removals, whatever the op.
func TestRemovalsInDisguise(t *testing.T) {
	for name, tc := range map[string]struct {
		op     client.Op
		change func(*v1.Pod)
	}{
		"an UPDATE that is deleted":      {client.Update, func(pod *v1.Pod) { pod.DeletionTimestamp = &metav1.Time{Time: time.Now()} }},
		"an ADD that is deleted":         {client.Add, func(pod *v1.Pod) { pod.DeletionTimestamp = &metav1.Time{Time: time.Now()} }},
		"a RESTORE that is deleted":      {client.Restore, func(pod *v1.Pod) { pod.DeletionTimestamp = &metav1.Time{Time: time.Now()} }},
		"an UPDATE with another name":    {client.Update, func(pod *v1.Pod) { pod.Name += "-renamed" }},
		"an UPDATE with a final phase":   {client.Update, func(pod *v1.Pod) { pod.Status.Phase = v1.PodFailed }},
		"a RECONCILE with a final phase": {client.Reconcile, func(pod *v1.Pod) { pod.Status.Phase = v1.PodSucceeded }},
		"an UPDATE with a deadline":      {client.Update, func(pod *v1.Pod) { pod.Spec.ActiveDeadlineSeconds = ptr.To[int64](0) }},
		"an ADD with a deadline":         {client.Add, func(pod *v1.Pod) { pod.Spec.ActiveDeadlineSeconds = ptr.To[int64](0) }},
	} {
		t.Run(name, func(t *testing.T) {
			n, l, pods := runPods(t, "api", 4)
			var changed []*v1.Pod
			for _, pod := range pods {
				pod = pod.DeepCopy()
				tc.change(pod)
				changed = append(changed, pod)
			}
			l.deliver(ops(change(tc.op, true, changed...)))
			eventually(t, "one pod is ended", func() bool { return n.stops() > 0 })
			l.housekeep()
			if got := n.stops(); got != 1 || l.removals.Len() != 3 {
				t.Errorf("%d pods are ended at once, and %d are held; want 1 and 3", got, l.removals.Len())
			}
		})
	}
}

// TestRemovalsAsMirrors: pods whose new versions are mirrors of static pods would be unknown after a restart, and be ended
// as orphans. They are held.
func TestRemovalsAsMirrors(t *testing.T) {
	n, l, pods := runPods(t, "api", 3)
	var changed []*v1.Pod
	for _, pod := range pods {
		pod = pod.DeepCopy()
		pod.Annotations[podmeta.MirrorAnnotation] = "x"
		changed = append(changed, pod)
	}
	l.deliver(ops(change(client.Update, true, changed...)))
	store := l.store
	l.stop()
	l = n.startFrom(store)
	l.deliver(synced(client.Source{Name: "api", Ready: true}))
	l.housekeep()
	l.housekeep()
	if got := n.stops(); got > 1 {
		t.Errorf("%d pods are ended after a restart; want 1 at the most", got)
	}
}

// TestPendingPodsThatRunCount: a pod is Pending while one of its containers runs and another one can't start.
func TestPendingPodsThatRunCount(t *testing.T) {
	n := newNode(t)
	n.maxRemovals = 1
	l := n.start()
	var pods []*v1.Pod
	for i := range 3 {
		pod := newPod(types.UID(fmt.Sprint("uid-", i)), fmt.Sprint("p", i), "api")
		second := simnode.Container("second")
		second.Image = "not a name"
		pod.Spec.Containers = append(pod.Spec.Containers, second)
		pods = append(pods, pod)
	}
	l.deliver(ops(change(client.Add, true, pods...)))
	for _, pod := range pods {
		l.await(pod.UID, "is Pending, and one container runs", func(p podview.Pod) bool {
			return p.Status != nil && p.Status.Phase == v1.PodPending && len(p.Status.ContainerStatuses) == 2 && p.Status.ContainerStatuses[0].State.Running != nil
		})
	}
	l.deliver(ops(change(client.Remove, true, pods...)))
	if got := l.removals.Len(); got != 2 {
		t.Errorf("%d removals are held; want 2", got)
	}
}

// TestEndingPodsDontCount: the removal of a pod that podexecd is ending by itself isn't held.
func TestEndingPodsDontCount(t *testing.T) {
	n, l, pods := runPods(t, "api", 3)
	l.deliver(ops(change(client.Remove, true, pods[0])))
	l.awaitGone(pods[0].UID)
	stopping, goOn := n.Hold(t, "StopContainer", 0)
	defer goOn()
	if !l.workers.Kill(pods[1].UID, worker.Kill{}) {
		t.Fatal("the pod isn't ended")
	}
	stopping()
	l.deliver(ops(change(client.Remove, true, pods[1:]...)))
	if got := l.removals.Len(); got != 1 {
		t.Errorf("%d removals are held; want 1: one of the pods ends already", got)
	}
}

// TestRestartsDontEndMore: podexecd that restarts between two removals doesn't end more pods than the bound allows.
func TestRestartsDontEndMore(t *testing.T) {
	n, l, pods := runPods(t, "api", 3)
	for i, pod := range pods {
		l.deliver(ops(change(client.Remove, true, pod)))
		if i == 0 {
			l.awaitGone(pod.UID)
		}
		if got, want := l.removals.Len(), min(i, 1); got != want {
			t.Errorf("after %d restarts %d removals are held; want %d", i, got, want)
		}
		store := l.store
		l.stop()
		l = n.startFrom(store)
	}
	l.ahead.Store(int64(time.Minute))
	l.deliver(ops(change(client.Remove, true, pods[1])))
	l.awaitGone(pods[1].UID)
	l.awaitRunning(pods[2].UID)
}

// TestHeldPodKeepsItsName: a pod with the name of a held one doesn't start beside it, also after a restart.
func TestHeldPodKeepsItsName(t *testing.T) {
	n, l, pods := runPods(t, "file", 6)
	var next []*v1.Pod
	for i, pod := range pods[1:] {
		next = append(next, newPod(types.UID(fmt.Sprint("next-", i)), pod.Name, "file"))
	}
	l.deliver(ops(change(client.Remove, true, pods...), change(client.Add, true, next...)))
	l.awaitGone(pods[0].UID)
	check := func(when string) {
		t.Helper()
		l.housekeep()
		for _, c := range n.seenChanges() {
			if strings.HasPrefix(c, "RunPodSandbox") {
				t.Errorf("%s: %s", when, c)
			}
		}
		for _, pod := range pods[1:] {
			l.awaitRunning(pod.UID)
		}
	}
	check("before the restart")
	store := l.store
	l.stop()
	l = n.startFrom(store)
	check("after the restart")
	l.ahead.Store(int64(2 * time.Minute))
	l.deliver(synced(client.Source{Name: "file", Ready: true}))
	l.deliver(ops(change(client.Remove, true, pods[1])))
	l.awaitGone(pods[1].UID)
	l.awaitRunning(next[0].UID)
}

// TestRenamedPods: a podconfigd that renames pods doesn't make podexecd fail, nor keeps their names taken.
func TestRenamedPods(t *testing.T) {
	n := newNode(t)
	l := n.start()
	holds, waits := newPod("holds", "web", "api"), newPod("waits", "web", "api")
	l.deliver(ops(change(client.Add, true, holds)))
	l.awaitRunning("holds")
	l.deliver(ops(change(client.Add, true, waits)))
	renamed := newPod("waits", "db", "api")
	l.deliver(ops(change(client.Update, true, renamed)))
	l.awaitRunning("waits")
	l.deliver(ops(change(client.Remove, true, renamed)))
	l.awaitGone("waits")
	l.deliver(ops(change(client.Remove, true, holds)))
	l.awaitGone("holds")
	l.deliver(ops(change(client.Add, true, newPod("next", "web", "api"))))
	l.awaitRunning("next")
}
