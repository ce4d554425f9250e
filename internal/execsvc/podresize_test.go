package execsvc

import (
	"context"
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podstream/podstream/client"
	"github.com/podstream/podstream/internal/execsvc/decide/resize"
	"github.com/podstream/podstream/internal/execsvc/loop/store"
	"github.com/podstream/podstream/internal/execsvc/pod/podtest"
	"github.com/podstream/podstream/internal/execsvc/pod/podview"
)

// whole returns a pod of an API server with these pod-level requests and limits; its container has none.
func whole(uid types.UID, generation int64, cpu, memory string) *v1.Pod {
	pod := newPod(uid, "pod-"+string(uid), "api")
	pod.Generation = generation
	pod.Spec.Resources = &v1.ResourceRequirements{Requests: podtest.Amounts(cpu, memory), Limits: podtest.Amounts(cpu, memory)}
	return pod
}

// awaitWhole waits until the pod is allocated and has the pod-level resources of its spec, and its resize is complete.
// It returns the ID of its container.
func (l *testAgent) awaitWhole(pod *v1.Pod) string {
	l.n.t.Helper()
	p := l.await(pod.UID, "has its size", func(p podview.Pod) bool {
		s := p.Status
		return s != nil && len(s.ContainerStatuses) == 1 && s.ContainerStatuses[0].State.Running != nil && s.ObservedGeneration == pod.Generation &&
			equality.Semantic.DeepEqual(s.Resources, pod.Spec.Resources) &&
			equality.Semantic.DeepEqual(s.AllocatedResources, pod.Spec.Resources.Requests) &&
			conditionOf(s, v1.PodResizePending) == nil && conditionOf(s, v1.PodResizeInProgress) == nil
	})
	return strings.TrimPrefix(p.Status.ContainerStatuses[0].ContainerID, "containerd://")
}

// Pod-level resources are resized in place, together with containers that have none of their own. The allocation
// survives a restart while a resize waits.
func TestResizeOfPod(t *testing.T) {
	n := newNode(t)
	n.allocatable = podtest.Amounts("4", "1Gi")
	l := n.start()
	other := sized("b", 1, "1", "256Mi")
	l.deliver(at(1, ops(change(client.Add, true, whole("a", 1, "1", "256Mi"), other))))
	id := l.awaitWhole(whole("a", 1, "1", "256Mi"))
	l.awaitRunning("b")
	n.takeChanges()
	l.deliver(at(2, ops(change(client.Update, true, whole("a", 2, "2", "512Mi")))))
	if now := l.awaitWhole(whole("a", 2, "2", "512Mi")); now != id {
		t.Errorf("container %s runs in place of %s", now, id)
	}
	n.wantHeldTo(id, 2048, 512*mi)
	l.wantEvents("ResizeStarted", "ResizeCompleted")
	if reported := n.Server.Calls()["UpdatePodSandboxResources"]; reported != 1 {
		t.Errorf("the runtime was told %d times of the sandbox; want once", reported)
	}
	n.takeChanges()
	l.deliver(at(3, ops(change(client.Update, true, whole("a", 3, "4", "512Mi")))))
	l.awaitCondition("a", v1.PodResizePending, v1.PodReasonDeferred, 3)
	l.stop()

	l = n.startFrom(l.store)
	l.housekeep()
	l.awaitCondition("a", v1.PodResizePending, v1.PodReasonDeferred, 3)
	if p, _ := l.shown("a"); p.Status.AllocatedResources.Cpu().Value() != 2 || p.Status.Resources.Limits.Cpu().Value() != 2 {
		t.Errorf("it has %v of allocated %v; want what it had before", p.Status.Resources, p.Status.AllocatedResources)
	}
	n.wantUnchanged()
	l.deliver(at(4, ops(change(client.Remove, true, other))))
	if now := l.awaitWhole(whole("a", 3, "4", "512Mi")); now != id {
		t.Errorf("container %s runs in place of %s", now, id)
	}
	n.wantHeldTo(id, 4096, 512*mi)
}

// A resize that was decided, but has no stored status, is carried out after a restart.
func TestResizeIsCarriedOutAfterRestart(t *testing.T) {
	n := newNode(t)
	l := n.start()
	l.deliver(at(1, ops(change(client.Add, true, sized("a", 1, "1", "256Mi")))))
	id := l.awaitSize(sized("a", 1, "1", "256Mi"))
	l.stop()
	granted := sized("a", 2, "2", "512Mi")
	l.changeStore(func(s *store.Store) {
		s.Apply(at(2, ops(change(client.Update, true, granted))))
		allocation := resize.AllocationOf(granted)
		allocation.Resizing = true
		s.SetAllocation("a", &allocation)
	})
	again := n.startFrom(l.store)
	if now := again.awaitSize(granted); now != id {
		t.Errorf("container %s runs in place of %s", now, id)
	}
	n.wantHeldTo(id, 2048, 512*mi)
	again.wantEvents("ResizeStarted", "ResizeCompleted")
}

// changeStore changes the store of an agent that was stopped.
func (l *testAgent) changeStore(edit func(*store.Store)) {
	l.n.t.Helper()
	s, _, err := store.Open(store.Config{Path: l.store})
	if err != nil {
		l.n.t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(l.n.t.Context())
	edit(s)
	cancel()
	// Run writes all changes before it ends.
	s.Run(ctx)
}
