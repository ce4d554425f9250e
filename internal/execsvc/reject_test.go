package execsvc

import (
	"path/filepath"
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"

	"github.com/podstream/podstream/client"
	"github.com/podstream/podstream/internal/execsvc/pod/podmeta"
	"github.com/podstream/podstream/internal/execsvc/pod/podtest"
	"github.com/podstream/podstream/internal/execsvc/pod/podview"
)

// A pod that the kubelet would reject at admission is Failed and says why; changed under its UID into one that can be
// admitted, it runs.
func TestRejectedPodRunsOnceChanged(t *testing.T) {
	n := newNode(t)
	l := n.start()
	pod := newPod("a", "web", "file")
	l.deliver(ops(change(client.Add, true, ofAnotherOS(pod))))
	p := l.await("a", "is rejected", func(p podview.Pod) bool { return p.Status != nil && p.Status.Phase == v1.PodFailed })
	if p.Status.Reason != "PodOSSelectorNodeLabelDoesNotMatch" || !strings.HasPrefix(p.Status.Message, "Pod was rejected: Failed to admit pod") {
		t.Errorf("reason %q, message %q", p.Status.Reason, p.Status.Message)
	}
	if s := p.Status; len(s.ContainerStatuses)+len(s.Conditions)+len(s.HostIPs) > 0 {
		t.Errorf("it has %v, %v, %v; want none of a pod that never began", s.ContainerStatuses, s.Conditions, s.HostIPs)
	}
	l.housekeep()
	n.wantUnchanged()
	l.deliver(ops(change(client.Update, true, pod)))
	l.awaitRunning("a")
	l.await("a", "is shown without a reason, message or error", func(p podview.Pod) bool {
		return p.Status.Reason == "" && p.Status.Message == "" && p.Err == nil
	})
}

// A static pod with an unsupported feature waits too, is reported, and runs once it is changed.
func TestUnsupportedStaticPodWaits(t *testing.T) {
	n := newNode(t)
	l := n.start()
	pod := newPod("a", "web", "file")
	l.deliver(ops(change(client.Add, true, withCephFS(pod))))
	l.awaitWaiting("a", "spec.volumes[0].cephfs")
	if got := l.PodErrors(); len(got) != 1 || got[0].UID != "a" || got[0].Reason != "UnsupportedFeature" {
		t.Errorf("reported are %+v; want the pod", got)
	}
	l.housekeep()
	n.wantUnchanged()
	l.deliver(ops(change(client.Update, true, pod)))
	l.awaitRunning("a")
	if got := l.PodErrors(); len(got) > 0 {
		t.Errorf("reported are %+v; want none", got)
	}
	l.await("a", "is shown without a reason, message or error", func(p podview.Pod) bool {
		return p.Status.Reason == "" && p.Status.Message == "" && p.Err == nil
	})
}

// SyncPod returns Rejected for a rejected pod, so that the worker retries.
func TestSyncPodReturnsRejected(t *testing.T) {
	l := newNode(t).start()
	res, err := l.SyncPod(t.Context(), ofAnotherOS(newPod("b", "web", "file")))
	if !res.Rejected || err != nil {
		t.Errorf("%+v, %v; want it rejected, without an error", res, err)
	}
	if res, err = l.SyncPod(t.Context(), newPod("b", "web", "file")); res.Rejected || err != nil {
		t.Errorf("%+v, %v; want it to run", res, err)
	}
}

// A final rejection stands, also over a restart: a controller has created another pod by then.
func TestFinalRejectionStands(t *testing.T) {
	n := newNode(t)
	path := filepath.Join(t.TempDir(), "podexecd.db")
	n.final = func(pod *v1.Pod) bool { return podmeta.Source(pod) == "api" }
	l := n.startFrom(path)
	pod := newPod("a", "web", "api")
	l.deliver(ops(change(client.Add, true, ofAnotherOS(pod))))
	l.await("a", "is rejected", func(p podview.Pod) bool { return p.Status != nil && p.Status.Phase == v1.PodFailed })
	if res, err := l.SyncPod(t.Context(), pod); !res.Rejected || err != nil {
		t.Errorf("%+v, %v; want the rejection to stand", res, err)
	}
	l.stop()
	l = n.startFrom(path)
	l.await("a", "is known", func(p podview.Pod) bool { return p.Status != nil })
	if res, err := l.SyncPod(t.Context(), pod); !res.Rejected || err != nil {
		t.Errorf("after a restart: %+v, %v; want the rejection to stand", res, err)
	}
	n.wantUnchanged()
}

// A running pod that is changed into one with unsupported features goes on as it was; it has an error until it is
// changed back.
func TestRunningPodOutlivesUnsupportedUpdate(t *testing.T) {
	n := newNode(t)
	l := n.start()
	pod := newPod("a", "web", "file")
	l.deliver(ops(change(client.Add, true, pod)))
	id := l.awaitRunning("a")
	n.takeChanges()
	l.deliver(ops(change(client.Update, true, withCephFS(pod))))
	p := l.await("a", "has an error", func(p podview.Pod) bool { return p.Err != nil })
	if text := p.Err.Error(); !strings.Contains(text, "goes on as it was") || !strings.Contains(text, "cephfs") {
		t.Errorf("the error is %q", text)
	}
	l.housekeep()
	if now := l.awaitRunning("a"); now != id {
		t.Errorf("container %s runs in place of %s", now, id)
	}
	n.wantUnchanged()
	if err := n.Server.ExitContainer(id, 1); err != nil {
		t.Fatal(err)
	}
	l.await("a", "is restarted as it was", func(p podview.Pod) bool {
		s := p.Status.ContainerStatuses
		return p.Err != nil && len(s) == 1 && s[0].State.Running != nil && s[0].RestartCount == 1
	})
	id = l.awaitRunning("a")
	l.deliver(ops(change(client.Update, true, pod)))
	l.await("a", "has no error", func(p podview.Pod) bool { return p.Err == nil && p.Status.Phase == v1.PodRunning })
	if now := l.awaitRunning("a"); now != id {
		t.Errorf("changed back, container %s runs in place of %s", now, id)
	}
}

// A pod with a final rejection takes no capacity, neither when some becomes free nor when the pod is updated.
func TestFinalRejectionTakesNoCapacity(t *testing.T) {
	n := newNode(t)
	n.allocatable = podtest.Amounts("2", "8Gi")
	n.final = func(*v1.Pod) bool { return true }
	l := n.start()
	first, rejected := sized("f", 1, "2", "1Mi"), sized("r", 1, "2", "1Mi")
	l.deliver(ops(change(client.Add, true, first)))
	l.awaitRunning("f")
	l.deliver(ops(change(client.Add, true, rejected)))
	l.awaitOutOfCPU(rejected)
	l.deliver(ops(change(client.Update, true, rejected)))
	l.deliver(ops(change(client.Remove, true, first)))
	l.awaitGone("f")
	l.deliver(ops(change(client.Add, true, sized("s", 1, "2", "1Mi"))))
	l.awaitRunning("s")
}
