package execsvc

import (
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
	"github.com/podstream/podstream/internal/simruntime/simnode"
)

// withInit returns a pod of an API server whose init container has these requests and limits.
func withInit(uid types.UID, generation int64, cpu, memory string) *v1.Pod {
	pod := sized(uid, generation, "1", "256Mi")
	setup := simnode.Container("setup")
	setup.Resources = v1.ResourceRequirements{Requests: podtest.Amounts(cpu, memory), Limits: podtest.Amounts(cpu, memory)}
	pod.Spec.InitContainers = []v1.Container{setup}
	return pod
}

// An init container that ends by itself is resized while it runs (InPlacePodVerticalScalingInitContainers), without a
// restart. After its end a resize of it changes nothing.
func TestResizeOfInitContainer(t *testing.T) {
	n := newNode(t)
	l := n.start()
	l.deliver(ops(change(client.Add, true, withInit("a", 1, "1", "256Mi"))))
	awaitInit := func(pod *v1.Pod) string {
		t.Helper()
		want := pod.Spec.InitContainers[0].Resources
		p := l.await("a", "has its size", func(p podview.Pod) bool {
			if p.Status == nil || len(p.Status.InitContainerStatuses) != 1 || p.Status.ObservedGeneration != pod.Generation {
				return false
			}
			c := p.Status.InitContainerStatuses[0]
			return c.ContainerID != "" && equality.Semantic.DeepEqual(c.Resources, &want) && equality.Semantic.DeepEqual(c.AllocatedResources, want.Requests) &&
				conditionOf(p.Status, v1.PodResizePending) == nil && conditionOf(p.Status, v1.PodResizeInProgress) == nil
		})
		return strings.TrimPrefix(p.Status.InitContainerStatuses[0].ContainerID, "containerd://")
	}
	id := awaitInit(withInit("a", 1, "1", "256Mi"))
	n.takeChanges()
	l.deliver(ops(change(client.Update, true, withInit("a", 2, "2", "512Mi"))))
	if now := awaitInit(withInit("a", 2, "2", "512Mi")); now != id {
		t.Errorf("container %s runs in place of %s", now, id)
	}
	want := []string{fmt.Sprintf("UpdateContainerResources %s 2048 shares %d bytes", id, 512*mi)}
	if got := n.takeChanges(); !slices.Equal(got, want) {
		t.Errorf("the calls were %q; want %q", got, want)
	}
	l.wantEvents("ResizeStarted", "ResizeCompleted")

	if err := n.Server.ExitContainer(id, 0); err != nil {
		t.Fatal(err)
	}
	l.awaitRunning("a")
	n.takeChanges()
	l.deliver(ops(change(client.Update, true, withInit("a", 3, "1", "256Mi"))))
	awaitInit(withInit("a", 3, "1", "256Mi"))
	n.wantUnchanged()
}
