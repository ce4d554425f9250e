package execsvc

import (
	"path/filepath"
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"

	"github.com/podstream/podstream/client"
	"github.com/podstream/podstream/internal/execsvc/board"
)

// A pod that can't be run as it is meant is failed and says why; changed under its UID into one that can, it runs.
func TestUnsupportedPodIsRefused(t *testing.T) {
	n := newNode(t)
	l := n.start()
	pod := newPod("a", "web", "file")
	l.deliver(ops(change(client.Add, true, withClaim(pod))))
	p := l.await("a", "is refused", func(p board.Pod) bool { return p.Status != nil && p.Status.Phase == v1.PodFailed })
	if p.Status.Reason != "UnsupportedFeature" || !strings.HasPrefix(p.Status.Message, "Pod was rejected: spec.volumes[0]: persistentVolumeClaim") {
		t.Errorf("reason %q, message %q", p.Status.Reason, p.Status.Message)
	}
	l.housekeep()
	n.wantUnchanged()
	l.deliver(ops(change(client.Update, true, pod)))
	l.awaitRunning("a")
	l.await("a", "is shown without a reason, message or error", func(p board.Pod) bool {
		return p.Status.Reason == "" && p.Status.Message == "" && p.Err == nil
	})
}

// The worker is told that the pod was refused, and so offers it again.
func TestRefusalIsTold(t *testing.T) {
	l := newNode(t).start()
	res, err := l.SyncPod(t.Context(), withClaim(newPod("b", "web", "file")))
	if !res.Refused || err != nil {
		t.Errorf("%+v, %v; want it refused, without an error", res, err)
	}
	if res, err = l.SyncPod(t.Context(), newPod("b", "web", "file")); res.Refused || err != nil {
		t.Errorf("%+v, %v; want it to run", res, err)
	}
}

// A refusal that others act on stands, over a restart too: a controller has made another pod by now.
func TestFinalRefusalStands(t *testing.T) {
	n := newNode(t)
	path := filepath.Join(t.TempDir(), "podexecd.db")
	n.final = func(pod *v1.Pod) bool { return pod.Annotations[sourceAnnotation] == "api" }
	l := n.startFrom(path)
	pod := newPod("a", "web", "api")
	l.deliver(ops(change(client.Add, true, withClaim(pod))))
	l.await("a", "is refused", func(p board.Pod) bool { return p.Status != nil && p.Status.Phase == v1.PodFailed })
	if res, err := l.SyncPod(t.Context(), pod); !res.Refused || err != nil {
		t.Errorf("%+v, %v; want the refusal to stand", res, err)
	}
	l.stop()
	l = n.startFrom(path)
	l.await("a", "is known", func(p board.Pod) bool { return p.Status != nil })
	if res, err := l.SyncPod(t.Context(), pod); !res.Refused || err != nil {
		t.Errorf("after a restart: %+v, %v; want the refusal to stand", res, err)
	}
	n.wantUnchanged()
}

// A running pod that is changed into one that can't be run goes on as it was; its error says so until it is changed back.
func TestRunningPodOutlivesUnsupportedUpdate(t *testing.T) {
	n := newNode(t)
	l := n.start()
	pod := newPod("a", "web", "file")
	l.deliver(ops(change(client.Add, true, pod)))
	id := l.awaitRunning("a")
	n.takeChanges()
	l.deliver(ops(change(client.Update, true, withClaim(pod))))
	p := l.await("a", "has an error", func(p board.Pod) bool { return p.Err != nil })
	if text := p.Err.Error(); !strings.Contains(text, "goes on as it was") || !strings.Contains(text, "persistentVolumeClaim") {
		t.Errorf("the error is %q", text)
	}
	l.housekeep()
	if now := l.awaitRunning("a"); now != id {
		t.Errorf("container %s runs in place of %s", now, id)
	}
	l.deliver(ops(change(client.Update, true, pod)))
	l.await("a", "is well", func(p board.Pod) bool { return p.Err == nil && p.Status.Phase == v1.PodRunning })
	n.wantUnchanged()
}

// A pod that was refused for good takes no room from others, when there is some and when it is told of again.
func TestFinalRefusalWaitsForNoRoom(t *testing.T) {
	n := newNode(t)
	n.allocatable = amounts("2", "8Gi")
	n.final = func(*v1.Pod) bool { return true }
	l := n.start()
	first, refused := sized("f", 1, "2", "1Mi"), sized("r", 1, "2", "1Mi")
	l.deliver(ops(change(client.Add, true, first)))
	l.awaitRunning("f")
	l.deliver(ops(change(client.Add, true, refused)))
	l.awaitOutOfCPU(refused)
	l.deliver(ops(change(client.Update, true, refused)))
	l.deliver(ops(change(client.Remove, true, first)))
	l.awaitGone("f")
	l.deliver(ops(change(client.Add, true, sized("s", 1, "2", "1Mi"))))
	l.awaitRunning("s")
}
