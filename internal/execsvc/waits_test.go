package execsvc

import (
	"slices"
	"strings"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	"github.com/podstream/podstream/client"
	"github.com/podstream/podstream/internal/execsvc/decide/admit"
	"github.com/podstream/podstream/internal/execsvc/decide/status"
	"github.com/podstream/podstream/internal/execsvc/pod/events"
	"github.com/podstream/podstream/internal/execsvc/pod/podmeta"
	"github.com/podstream/podstream/internal/execsvc/pod/podtest"
	"github.com/podstream/podstream/internal/execsvc/pod/podview"
)

// withVolume adds a volume that the pod's container mounts.
func withVolume(spec *v1.PodSpec, source v1.VolumeSource) {
	spec.Volumes = []v1.Volume{{Name: "data", VolumeSource: source}}
	spec.Containers[0].VolumeMounts = []v1.VolumeMount{{Name: "data", MountPath: "/data"}}
}

// mounting returns a change of a pod: its container mounts a volume of that type.
func mounting(source v1.VolumeSource) func(*v1.PodSpec) {
	return func(s *v1.PodSpec) { withVolume(s, source) }
}

// unsupported are changes of a pod by which it needs a feature that the node of these tests doesn't have, by field,
// with the event's reason.
var unsupported = map[string]struct {
	reason string
	change func(*v1.PodSpec)
}{
	"spec.volumes[0].cephfs": {
		events.FailedMountVolume, mounting(v1.VolumeSource{CephFS: &v1.CephFSVolumeSource{Monitors: []string{"ceph.example.com"}}}),
	},
	"spec.volumes[0].fc":    {events.FailedMountVolume, mounting(v1.VolumeSource{FC: &v1.FCVolumeSource{TargetWWNs: []string{"5"}}})},
	"spec.volumes[0].image": {events.FailedMountVolume, mounting(v1.VolumeSource{Image: &v1.ImageVolumeSource{Reference: "i"}})},
	"spec.resourceClaims": {
		events.FailedPrepareResources, func(s *v1.PodSpec) { s.ResourceClaims = []v1.PodResourceClaim{{Name: "gpu"}} },
	},
	"spec.runtimeClassName": {events.FailedCreatePodSandbox, func(s *v1.PodSpec) { s.RuntimeClassName = ptr.To("runc") }},
	"spec.hostUsers":        {events.FailedCreatePodSandbox, func(s *v1.PodSpec) { s.HostUsers = ptr.To(false) }},
}

// awaitEvent waits until the pod, or one of its containers, has a warning with that reason whose message has the text.
func (l *testAgent) awaitEvent(uid types.UID, reason, text string) {
	l.n.t.Helper()
	eventually(l.n.t, "there is an event "+reason+" with "+text, func() bool {
		all, _, _ := l.events.After(0)
		return slices.ContainsFunc(all, func(e events.Event) bool {
			return e.UID == uid && e.Type == events.Warning && e.Reason == reason && strings.Contains(e.Message, text)
		})
	})
}

// awaitWaiting waits until the pod is Pending because of that field.
func (l *testAgent) awaitWaiting(uid types.UID, field string) {
	l.n.t.Helper()
	p := l.await(uid, "waits for "+field, func(p podview.Pod) bool {
		return p.Status != nil && (p.Err != nil || p.Status.Phase != v1.PodPending)
	})
	if p.State != syncing || p.Status.Phase != v1.PodPending || p.Err == nil || !strings.Contains(p.Err.Error(), field) {
		l.n.t.Errorf("it is %v and %s (%s) with the error %v; want it Pending because of %s", p.State, p.Status.Phase, p.Status.Reason, p.Err, field)
	}
	if s := p.Status.ContainerStatuses; len(s) != 1 || s[0].State.Waiting == nil || s[0].State.Waiting.Reason != "ContainerCreating" {
		l.n.t.Errorf("its containers are %+v; want one that waits with ContainerCreating", s)
	}
}

// A pod of the API server that needs a missing feature waits, as with the kubelet: if it failed, its controller would
// create another one at once, again and again.
func TestUnsupportedPodWaits(t *testing.T) {
	for field, c := range unsupported {
		t.Run(field, func(t *testing.T) {
			n := newNode(t)
			n.final = func(*v1.Pod) bool { return true }
			n.setRuntime(admit.Runtime{Handlers: map[string]admit.Handler{"": {}}})
			l := n.start()
			pod := newPod("a", "web", "api")
			c.change(&pod.Spec)
			l.deliver(ops(change(client.Add, true, pod)))
			l.awaitWaiting("a", field)
			l.awaitEvent("a", c.reason, field+": ")
			l.housekeep()
			l.awaitWaiting("a", field)
			n.wantUnchanged()
			l.deliver(ops(change(client.Remove, true, pod)))
			l.awaitGone("a")
		})
	}
}

// A waiting pod has capacity like any other, until it is gone, and runs once the node provides the feature.
func TestWaitingPodHasCapacity(t *testing.T) {
	n := newNode(t)
	n.allocatable = podtest.Amounts("2", "1Gi")
	l := n.start()
	waits := sized("w", 1, "2", "256Mi")
	waits.Spec.RuntimeClassName = ptr.To("runc")
	n.setRuntime(admit.Runtime{Handlers: map[string]admit.Handler{"": {}}})
	l.deliver(ops(change(client.Add, true, waits)))
	l.awaitWaiting("w", "spec.runtimeClassName")
	l.deliver(ops(change(client.Add, true, sized("o", 1, "1", "256Mi"))))
	l.await("o", "is rejected", func(p podview.Pod) bool { return p.Status != nil && p.Status.Reason == "OutOfcpu" })
	n.setRuntime(admit.Runtime{Handlers: map[string]admit.Handler{"": {}, "runc": {}}})
	l.awaitRunning("w")
	l.deliver(ops(change(client.Remove, true, waits)))
	l.awaitRunning("o")
}

// A waiting pod can be evicted, and stays Failed.
func TestWaitingPodIsEvicted(t *testing.T) {
	l := newNode(t).start()
	l.deliver(ops(change(client.Add, true, withCephFS(newPod("w", "web", "api")))))
	l.awaitWaiting("w", "cephfs")
	if pods := l.Evictable(); len(pods) != 1 || pods[0].UID != "w" {
		t.Errorf("evictable are %v; want the pod that waits", pods)
	}
	if !l.Evict("w", 1, status.Failure{Reason: events.Evicted, Message: "m", Disrupted: true}) {
		t.Error("it can't be evicted")
	}
	p := l.await("w", "is evicted", func(p podview.Pod) bool { return p.State == finished })
	if p.Status.Phase != v1.PodFailed || p.Status.Reason != events.Evicted {
		t.Errorf("it is %s with %q", p.Status.Phase, p.Status.Reason)
	}
}

// No pod is preempted for a critical pod that couldn't start.
func TestWaitingPodPreemptsNone(t *testing.T) {
	n := newNode(t)
	n.allocatable = podtest.Amounts("2", "1Gi")
	l := n.start()
	runs, critical := sized("r", 1, "2", "256Mi"), withCephFS(sized("c", 1, "1", "256Mi"))
	critical.Spec.Priority = ptr.To[int32](podmeta.SystemCriticalPriority)
	l.deliver(ops(change(client.Add, true, runs)))
	id := l.awaitRunning("r")
	l.deliver(ops(change(client.Add, true, critical)))
	l.awaitWaiting("c", "cephfs")
	l.housekeep()
	if now := l.awaitRunning("r"); now != id || len(l.preempted()) > 0 {
		t.Errorf("container %s runs in place of %s, and %q were ended", now, id, l.preempted())
	}
	// It has no reservation either.
	l.deliver(ops(change(client.Remove, true, runs)))
	l.awaitGone("r")
	l.deliver(ops(change(client.Add, true, sized("o", 1, "1", "256Mi"))))
	l.awaitRunning("o")
}

// A request of an extended resource that the node doesn't advertise is ignored, and the pod runs.
func TestUnknownExtendedResourceIsIgnored(t *testing.T) {
	n := newNode(t)
	n.allocatable = podtest.Amounts("2", "1Gi")
	l := n.start()
	pod := sized("a", 1, "1", "256Mi")
	pod.Spec.Containers[0].Resources.Requests["example.com/gpu"] = podtest.Amounts("1", "1")[v1.ResourceCPU]
	l.deliver(ops(change(client.Add, true, pod)))
	l.awaitRunning("a")
}

// strictGroups sets the policy by which the pod doesn't get the image's own groups.
func strictGroups(pod *v1.Pod) *v1.Pod {
	pod.Spec.SecurityContext = &v1.PodSecurityContext{SupplementalGroupsPolicy: ptr.To(v1.SupplementalGroupsPolicyStrict)}
	return pod
}

// Before a pod is rejected because the runtime lacks a feature, the runtime is asked: it may have been replaced.
func TestRuntimeIsAskedBeforeRejection(t *testing.T) {
	n := newNode(t)
	n.final = func(*v1.Pod) bool { return true }
	n.answer = &admit.Runtime{SupplementalGroupsPolicy: true}
	l := n.start()
	l.deliver(ops(change(client.Add, true, strictGroups(newPod("a", "web", "api")))))
	l.awaitRunning("a")
}

// While the runtime doesn't answer, such a pod waits for the next answer.
func TestPodWaitsForSilentRuntime(t *testing.T) {
	n := newNode(t)
	n.retryPause = time.Hour
	n.final = func(*v1.Pod) bool { return true }
	n.answer = &admit.Runtime{Silent: true}
	l := n.start()
	l.deliver(ops(change(client.Add, true, strictGroups(newPod("a", "web", "api")))))
	l.awaitWaiting("a", "supplementalGroupsPolicy")
	n.setRuntime(admit.Runtime{SupplementalGroupsPolicy: true})
	l.RuntimeChanged()
	l.awaitRunning("a")
}

// A static pod that was rejected because of the runtime runs once the runtime has the feature.
func TestRejectedStaticPodRunsOnceRuntimeChanges(t *testing.T) {
	n := newNode(t)
	n.retryPause = time.Hour
	l := n.start()
	l.deliver(ops(change(client.Add, true, strictGroups(newPod("a", "web", "file")))))
	l.await("a", "is rejected", func(p podview.Pod) bool {
		return p.Status != nil && p.Status.Reason == admit.SupplementalGroupsPolicyNotSupported
	})
	n.setRuntime(admit.Runtime{SupplementalGroupsPolicy: true})
	l.RuntimeChanged()
	l.awaitRunning("a")
}
