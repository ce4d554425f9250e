package execsvc

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podstream/podstream/client"
	"github.com/podstream/podstream/internal/execsvc/pod/podtest"
	"github.com/podstream/podstream/internal/execsvc/pod/podview"
)

// sized returns a pod of an API server with these requests and limits.
func sized(uid types.UID, generation int64, cpu, memory string) *v1.Pod {
	pod := newPod(uid, "pod-"+string(uid), "api")
	pod.Generation = generation
	pod.Spec.Containers[0].Resources = v1.ResourceRequirements{Requests: podtest.Amounts(cpu, memory), Limits: podtest.Amounts(cpu, memory)}
	return pod
}

// awaitSize waits until the pod's container is allocated and has the resources of its spec, and the resize is
// complete. It returns its ID.
func (l *testAgent) awaitSize(pod *v1.Pod) string {
	l.n.t.Helper()
	want := pod.Spec.Containers[0].Resources
	p := l.await(pod.UID, "has its size", func(p podview.Pod) bool {
		if p.Status == nil || len(p.Status.ContainerStatuses) != 1 || p.Status.ObservedGeneration != pod.Generation {
			return false
		}
		c := p.Status.ContainerStatuses[0]
		return c.State.Running != nil && equality.Semantic.DeepEqual(c.Resources, &want) &&
			equality.Semantic.DeepEqual(c.AllocatedResources, want.Requests) &&
			conditionOf(p.Status, v1.PodResizePending) == nil && conditionOf(p.Status, v1.PodResizeInProgress) == nil
	})
	return strings.TrimPrefix(p.Status.ContainerStatuses[0].ContainerID, "containerd://")
}

// awaitCondition waits until the condition has that reason for that generation, and returns it.
func (l *testAgent) awaitCondition(uid types.UID, kind v1.PodConditionType, reason string, generation int64) *v1.PodCondition {
	l.n.t.Helper()
	p := l.await(uid, fmt.Sprintf("has %s for %q", kind, reason), func(p podview.Pod) bool {
		c := conditionOf(p.Status, kind)
		return c != nil && c.Reason == reason && c.ObservedGeneration == generation
	})
	return conditionOf(p.Status, kind)
}

// wantEvents checks the reasons of the events about resizes.
func (l *testAgent) wantEvents(want ...string) {
	l.n.t.Helper()
	resizes := func() []string {
		all, _, _ := l.events.After(0)
		var got []string
		for _, e := range all {
			if strings.HasPrefix(e.Reason, "Resize") {
				got = append(got, e.Reason)
			}
		}
		return got
	}
	eventually(l.n.t, fmt.Sprintf("events %q", want), func() bool { return slices.Equal(resizes(), want) })
}

// wantHeldTo checks the limits of a container.
func (n *node) wantHeldTo(id string, shares, memory int64) {
	n.t.Helper()
	resp, err := n.CRI.ContainerStatus(n.t.Context(), id, false)
	if err != nil {
		n.t.Fatal(err)
	}
	if got := resp.GetStatus().GetResources().GetLinux(); got.GetCpuShares() != shares || got.GetMemoryLimitInBytes() != memory {
		n.t.Fatalf("container %s has %v; want %d shares and %d bytes", id, got, shares, memory)
	}
}

const mi = 1 << 20

// A resize changes the running container.
func TestResizeInPlace(t *testing.T) {
	n := newNode(t)
	l := n.start()
	l.deliver(ops(change(client.Add, true, sized("a", 1, "1", "256Mi"))))
	id := l.awaitSize(sized("a", 1, "1", "256Mi"))
	n.takeChanges()
	l.deliver(ops(change(client.Update, true, sized("a", 2, "2", "512Mi"))))
	if now := l.awaitSize(sized("a", 2, "2", "512Mi")); now != id {
		t.Errorf("container %s runs in place of %s", now, id)
	}
	want := []string{fmt.Sprintf("UpdateContainerResources %s 2048 shares %d bytes", id, 512*mi)}
	if got := n.takeChanges(); !slices.Equal(got, want) {
		t.Errorf("the calls were %q; want %q", got, want)
	}
	l.wantEvents("ResizeStarted", "ResizeCompleted")
	// Nothing changes after a restart.
	l.stop()
	again := n.startFrom(l.store)
	again.housekeep()
	if now := again.awaitSize(sized("a", 2, "2", "512Mi")); now != id {
		t.Errorf("container %s runs in place of %s", now, id)
	}
	n.wantUnchanged()
	again.wantEvents()
}

// A container whose resizePolicy requires it is restarted for a resize, and its restarts are counted.
func TestResizeRestarts(t *testing.T) {
	n := newNode(t)
	l := n.start()
	withPolicy := func(pod *v1.Pod) *v1.Pod {
		pod.Spec.Containers[0].ResizePolicy = []v1.ContainerResizePolicy{{ResourceName: v1.ResourceMemory, RestartPolicy: v1.RestartContainer}}
		return pod
	}
	l.deliver(ops(change(client.Add, true, withPolicy(sized("a", 1, "1", "256Mi")))))
	id := l.awaitSize(sized("a", 1, "1", "256Mi"))
	n.takeChanges()
	l.deliver(ops(change(client.Update, true, withPolicy(sized("a", 2, "1", "512Mi")))))
	now := l.awaitSize(sized("a", 2, "1", "512Mi"))
	n.wantHeldTo(now, 1024, 512*mi)
	if got := n.takeChanges(); !slices.Contains(got, "StopContainer "+id+" 7") ||
		slices.ContainsFunc(got, func(c string) bool { return strings.HasPrefix(c, "Update") }) {
		t.Errorf("the calls were %q; want it stopped and started", got)
	}
	if p, _ := l.shown("a"); p.Status.ContainerStatuses[0].RestartCount != 1 {
		t.Errorf("it was restarted %d times", p.Status.ContainerStatuses[0].RestartCount)
	}
	l.wantEvents("ResizeStarted", "ResizeCompleted")
}

// A resize that doesn't fit waits, also after a restart. The pod goes on with its allocation, also in a restarted
// container. The resize begins when another pod ends or shrinks.
func TestResizeDeferred(t *testing.T) {
	for name, free := range map[string]client.Change{
		"another pod ends":    change(client.Remove, true, sized("b", 1, "2", "256Mi")),
		"another pod shrinks": change(client.Update, true, sized("b", 2, "1", "256Mi")),
	} {
		t.Run(name, func(t *testing.T) {
			n := newNode(t)
			n.allocatable = podtest.Amounts("4", "1Gi")
			l := n.start()
			l.deliver(at(1, ops(change(client.Add, true, sized("a", 1, "2", "256Mi"), sized("b", 1, "2", "256Mi")))))
			id := l.awaitSize(sized("a", 1, "2", "256Mi"))
			l.awaitSize(sized("b", 1, "2", "256Mi"))
			n.takeChanges()
			l.deliver(at(2, ops(change(client.Update, true, sized("a", 2, "3", "256Mi")))))
			c := l.awaitCondition("a", v1.PodResizePending, v1.PodReasonDeferred, 2)
			if want := "Node didn't have enough resource: cpu, requested: 3000, used: 2000, capacity: 4000"; c.Message != want {
				t.Errorf("message %q, want %q", c.Message, want)
			}
			l.wantEvents("ResizeDeferred")
			l.housekeep()
			n.wantUnchanged()
			l.stop()

			l = n.startFrom(l.store)
			l.housekeep()
			l.awaitCondition("a", v1.PodResizePending, v1.PodReasonDeferred, 2)
			n.wantUnchanged()
			if err := n.Server.ExitContainer(id, 1); err != nil {
				t.Fatal(err)
			}
			var now string
			eventually(t, "it was restarted", func() bool { now = l.awaitRunning("a"); return now != id })
			n.wantHeldTo(now, 2048, 256*mi)

			l.deliver(at(3, ops(free)))
			if last := l.awaitSize(sized("a", 2, "3", "256Mi")); last != now {
				t.Errorf("container %s runs in place of %s", last, now)
			}
			n.wantHeldTo(now, 3072, 256*mi)
		})
	}
}

// A resize that fails in the runtime sets a condition, and is retried, also after a restart.
func TestResizeFails(t *testing.T) {
	n := newNode(t)
	l := n.start()
	l.deliver(at(1, ops(change(client.Add, true, sized("a", 1, "1", "256Mi")))))
	id := l.awaitSize(sized("a", 1, "1", "256Mi"))
	n.SetFault(func(_ context.Context, method string) error {
		if method == "UpdateContainerResources" {
			return errors.New("device or resource busy")
		}
		return nil
	})
	l.deliver(at(2, ops(change(client.Update, true, sized("a", 2, "1", "128Mi")))))
	c := l.awaitCondition("a", v1.PodResizeInProgress, v1.PodReasonError, 2)
	if !strings.Contains(c.Message, "device or resource busy") {
		t.Errorf("message %q", c.Message)
	}
	p, _ := l.shown("a")
	s := p.Status.ContainerStatuses[0]
	if s.Resources.Limits.Memory().Value() != 256*mi || s.AllocatedResources.Memory().Value() != 128*mi {
		t.Errorf("it has %v of allocated %v; want the old limits and the new allocation", s.Resources, s.AllocatedResources)
	}
	l.wantEvents("ResizeStarted", "ResizeError")
	l.stop()
	n.SetFault(nil)
	again := n.startFrom(l.store)
	if now := again.awaitSize(sized("a", 2, "1", "128Mi")); now != id {
		t.Errorf("container %s runs in place of %s", now, id)
	}
	n.wantHeldTo(id, 1024, 128*mi)
	again.wantEvents("ResizeCompleted")
}
