package execsvc

import (
	"testing"

	v1 "k8s.io/api/core/v1"

	"github.com/podstream/podstream/client"
	"github.com/podstream/podstream/internal/execsvc/pod/criconfig"
	"github.com/podstream/podstream/internal/execsvc/pod/podtest"
	"github.com/podstream/podstream/internal/execsvc/pod/podview"
)

// A resize beyond the node's capacity is deferred, as with the kubelet since 1.37. An update back to the old resources
// ends it. What the message says of other pods changes with them, and is no further event.
func TestResizeBeyondNode(t *testing.T) {
	n := newNode(t)
	n.allocatable = podtest.Amounts("4", "1Gi")
	l := n.start()
	l.deliver(at(1, ops(change(client.Add, true, sized("a", 1, "1", "256Mi"), sized("b", 1, "2", "256Mi")))))
	l.awaitSize(sized("a", 1, "1", "256Mi"))
	l.awaitSize(sized("b", 1, "2", "256Mi"))
	says := func(message string) {
		t.Helper()
		l.await("a", "says: "+message, func(p podview.Pod) bool {
			c := conditionOf(p.Status, v1.PodResizePending)
			return c != nil && c.Reason == v1.PodReasonDeferred && c.ObservedGeneration == 2 && c.Message == message
		})
	}
	l.deliver(at(2, ops(change(client.Update, true, sized("a", 2, "5", "256Mi")))))
	says("Node didn't have enough resource: cpu, requested: 5000, used: 2000, capacity: 4000")
	l.deliver(at(3, ops(change(client.Update, true, sized("b", 2, "1", "256Mi")))))
	says("Node didn't have enough resource: cpu, requested: 5000, used: 1000, capacity: 4000")
	l.awaitSize(sized("b", 2, "1", "256Mi"))
	l.wantEvents("ResizeDeferred", "ResizeStarted", "ResizeCompleted")
	n.takeChanges()
	l.deliver(at(4, ops(change(client.Update, true, sized("a", 3, "1", "256Mi")))))
	l.awaitSize(sized("a", 3, "1", "256Mi"))
	n.wantUnchanged()
}

// A resize that would change a container's swap is infeasible: it is not tried again.
func TestResizeInfeasible(t *testing.T) {
	n := newNode(t)
	n.runtimeNode = criconfig.Node{SwapAccounting: true, CgroupV2: true, LimitedSwap: true, MemoryCapacity: 1 << 30, SwapCapacity: 1 << 30}
	l := n.start()
	burstable := func(generation int64, memory string) *v1.Pod {
		pod := sized("a", generation, "1", memory)
		pod.Spec.Containers[0].Resources.Limits = podtest.Amounts("2", "512Mi")
		return pod
	}
	l.deliver(at(1, ops(change(client.Add, true, burstable(1, "128Mi")))))
	l.awaitRunning("a")
	n.takeChanges()
	l.deliver(at(2, ops(change(client.Update, true, burstable(2, "256Mi")))))
	c := l.awaitCondition("a", v1.PodResizePending, v1.PodReasonInfeasible, 2)
	if want := "In-place resize of containers with swap is not supported."; c.Message != want {
		t.Errorf("message %q, want %q", c.Message, want)
	}
	n.wantUnchanged()
	l.wantEvents("ResizeInfeasible")
}

// Under pressure no pod gets more, as with the kubelet. It gets less at once, and more after the pressure.
func TestResizeUnderPressure(t *testing.T) {
	n := newNode(t)
	n.allocatable = podtest.Amounts("4", "1Gi")
	l := n.start()
	l.deliver(at(1, ops(change(client.Add, true, sized("a", 1, "2", "256Mi")))))
	id := l.awaitSize(sized("a", 1, "2", "256Mi"))
	l.press(true)
	n.takeChanges()
	l.deliver(at(2, ops(change(client.Update, true, sized("a", 2, "3", "256Mi")))))
	if c := l.awaitCondition("a", v1.PodResizePending, v1.PodReasonDeferred, 2); c.Message != shortMessage {
		t.Errorf("message %q, want %q", c.Message, shortMessage)
	}
	n.wantUnchanged()
	l.deliver(at(3, ops(change(client.Update, true, sized("a", 3, "1", "256Mi")))))
	l.awaitSize(sized("a", 3, "1", "256Mi"))
	l.deliver(at(4, ops(change(client.Update, true, sized("a", 4, "3", "256Mi")))))
	l.awaitCondition("a", v1.PodResizePending, v1.PodReasonDeferred, 4)
	l.press(false)
	if now := l.awaitSize(sized("a", 4, "3", "256Mi")); now != id {
		t.Errorf("container %s runs in place of %s", now, id)
	}
	n.wantHeldTo(id, 3072, 256*mi)
}
