package execsvc

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"

	"github.com/podstream/podstream/client"
	"github.com/podstream/podstream/internal/execsvc/pod/podmeta"
	"github.com/podstream/podstream/internal/execsvc/pod/podview"
)

// A pod that is added runs. After its removal nothing of it is left in the runtime, on disk and in the pod view.
func TestAddRunsRemovePurges(t *testing.T) {
	n := newNode(t)
	l := n.start()
	pod := newPod("a", "web", "file")
	l.deliver(ops(change(client.Add, true, pod)))
	l.awaitRunning("a")
	n.wantLeft(1, 1)
	podDir, logDir := filepath.Join(n.podsDir, "a"), podmeta.LogDir(n.logsDir, "default", "web", "a")
	if !exists(t, podDir) || !exists(t, filepath.Join(logDir, "main", "0.log")) {
		t.Fatal("the running pod has no directory or no log")
	}
	l.deliver(ops(change(client.Remove, true, pod)))
	l.awaitGone("a")
	n.wantLeft(0, 0)
	if exists(t, podDir) || exists(t, logDir) {
		t.Error("the pod's directory or logs are left")
	}
	links, err := os.ReadDir(filepath.Join(filepath.Dir(n.logsDir), "containers"))
	if err != nil || len(links) > 0 {
		t.Errorf("links to logs %v are left (%v)", links, err)
	}
	if shown := l.board.All(); len(shown) > 0 {
		t.Errorf("the pod view has %+v; want nothing", shown)
	}
}

// A pod that is removed, and added again with the same UID while it is terminating, ends and then runs once.
func TestPodIsAddedAgainWhileTerminating(t *testing.T) {
	n := newNode(t)
	l := n.start()
	pod := newPod("a", "web", "file")
	l.deliver(ops(change(client.Add, true, pod)))
	first := l.awaitRunning("a")
	n.takeChanges()
	stopping, release := n.Hold(t, "StopContainer", 0)
	l.deliver(ops(change(client.Remove, true, pod)))
	stopping()
	l.deliver(ops(change(client.Add, true, pod)))
	l.await("a", "is shown as terminating, and as desired", func(p podview.Pod) bool { return p.State == terminating && p.Desired })
	release()
	second := l.await("a", "runs again", func(p podview.Pod) bool {
		return p.State == syncing && p.Status != nil && p.Status.Phase == v1.PodRunning && len(p.Status.ContainerStatuses) == 1 &&
			!strings.HasSuffix(p.Status.ContainerStatuses[0].ContainerID, first)
	})
	if got := second.Status.ContainerStatuses[0].RestartCount; got != 0 {
		t.Errorf("the new pod has %d restarts; want none", got)
	}
	l.housekeep()
	n.wantLeft(1, 1)
	starts := 0
	for _, c := range n.takeChanges() {
		if c == "StartContainer" {
			starts++
		}
	}
	if starts != 1 {
		t.Errorf("%d containers were started after the removal; want 1", starts)
	}
}

// A mirror pod is neither run nor shown.
func TestMirrorPodIsNotRun(t *testing.T) {
	n := newNode(t)
	l := n.start()
	mirror := newPod("m", "web", "api")
	mirror.Annotations[podmeta.MirrorAnnotation] = "hash"
	// Once the other pod runs, the event was handled.
	l.deliver(ops(change(client.Add, true, mirror, newPod("b", "other", "api"))))
	l.deliver(ops(change(client.Update, true, mirror)))
	l.deliver(ops(change(client.Reconcile, true, mirror)))
	l.awaitRunning("b")
	l.housekeep()
	if p, there := l.shown("m"); there {
		t.Errorf("the mirror pod is shown: %+v", p)
	}
	n.wantLeft(1, 1)
}

// A pod that has run to its end keeps its status until it is removed.
func TestEndedPodStaysUntilRemoved(t *testing.T) {
	for _, tc := range []struct {
		code  string
		phase v1.PodPhase
	}{{"0", v1.PodSucceeded}, {"3", v1.PodFailed}} {
		t.Run(string(tc.phase), func(t *testing.T) {
			n := newNode(t)
			l := n.start()
			pod := newPod("a", "job", "file", "exit", tc.code)
			pod.Spec.RestartPolicy = v1.RestartPolicyNever
			l.deliver(ops(change(client.Add, true, pod)))
			l.deliver(synced(client.Source{Name: "file", Ready: true}))
			ended := func(p podview.Pod) bool {
				return p.State == finished && p.Desired && p.Status.Phase == tc.phase
			}
			l.await("a", "has ended", ended)
			l.housekeep()
			if p, there := l.shown("a"); !there || !ended(p) {
				t.Fatalf("after housekeeping the pod is shown (%v) as %+v", there, p)
			}
			n.wantLeft(1, 1)
			l.deliver(ops(change(client.Remove, true, pod)))
			l.awaitGone("a")
			n.wantLeft(0, 0)
		})
	}
}
