package execsvc

import (
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/podstream/podstream/client"
	"github.com/podstream/podstream/internal/execsvc/pod/podmeta"
)

// After a restart a pod that is still desired goes on unchanged, without any call for it.
func TestRestartAdoptsRunningPods(t *testing.T) {
	n := newNode(t)
	pod := newPod("a", "web", "file")
	left := n.leave(pod)
	before := n.Server.Calls()
	l := n.start()
	l.deliver(ops(change(client.Add, true, pod)))
	l.deliver(synced(client.Source{Name: "file", Ready: true}))
	if id := l.awaitRunning("a"); id != left[0] {
		t.Errorf("container %s runs; want %s, which ran before", id, left[0])
	}
	l.housekeep()
	n.wantUnchanged()
	after := n.Server.Calls()
	for _, method := range []string{"RunPodSandbox", "CreateContainer", "StartContainer", "StopContainer", "PullImage"} {
		if after[method] != before[method] {
			t.Errorf("%s was called", method)
		}
	}
}

// An orphaned pod is removed once its source is ready, and not before. It gets the grace period that it was created
// with.
func TestOrphanIsRemovedWhenItsSourceIsReady(t *testing.T) {
	n := newNode(t)
	left := n.leave(newPod("old", "web", "file"))
	l := n.start()
	eventually(t, "the runtime is read", func() bool { return len(l.board.All()) == 1 })
	l.housekeep()
	l.wantUnclaimed("old")
	n.wantUnchanged()

	l.deliver(synced(client.Source{Name: "file"}, client.Source{Name: "http", Ready: true}))
	l.housekeep()
	l.wantUnclaimed("old")
	n.wantUnchanged()

	l.deliver(synced(client.Source{Name: "file", Ready: true}, client.Source{Name: "http"}))
	l.awaitGone("old")
	if got := n.takeChanges(); !slices.Contains(got, "StopContainer "+left[0]+" 7") {
		t.Errorf("the orphaned pod wasn't stopped with its grace period: %q", got)
	}
	n.wantLeft(0, 0)
	if exists(t, filepath.Join(n.podsDir, "old")) || exists(t, podmeta.LogDir(n.logsDir, "default", "web", "old")) {
		t.Error("the orphaned pod's directory or logs are left")
	}
}

// A source that becomes ready within a catch-up doesn't cause a removal yet: only Synced has all sources.
func TestNothingIsRemovedBeforeSynced(t *testing.T) {
	n := newNode(t)
	wanted := newPod("a", "web", "file")
	n.leave(wanted, newPod("old", "old", "http"))
	l := n.start()
	l.deliver(ops(change(client.Add, true, wanted), becomesReady("http")))
	l.awaitRunning("a")
	l.housekeep()
	l.wantUnclaimed("old")
	n.wantUnchanged()
	l.deliver(synced(client.Source{Name: "file", Ready: true}, client.Source{Name: "http", Ready: true}))
	l.awaitGone("old")
	l.awaitRunning("a")
	n.wantLeft(1, 1)
}

// If a source gives the name of an orphaned pod to another pod, the orphaned pod ends at once, before the other one
// starts.
func TestOrphanEndsBeforeItsSuccessorStarts(t *testing.T) {
	n := newNode(t)
	left := n.leave(newPod("old", "web", "file"))
	l := n.start()
	l.deliver(ops(change(client.Add, false, newPod("new", "web", "file"))))
	l.awaitRunning("new")
	l.awaitGone("old")
	wantStopThenRun(t, n.takeChanges(), "StopContainer "+left[0]+" 7", "RunPodSandbox new")
	n.wantLeft(1, 1)
}

// While an orphaned pod of another source has its name, a pod waits until that source is ready. It then replaces the
// orphaned one.
func TestPodWaitsForOrphanOfAnotherSource(t *testing.T) {
	n := newNode(t)
	left := n.leave(newPod("old", "web", "http"))
	l := n.start()
	l.deliver(ops(change(client.Add, true, newPod("new", "web", "file"))))
	l.deliver(synced(client.Source{Name: "file", Ready: true}, client.Source{Name: "http"}))
	l.housekeep()
	l.wantUnclaimed("old")
	if p, there := l.shown("new"); !there || !p.Desired || p.State != unclaimed || p.Status != nil {
		t.Errorf("the waiting pod is shown (%v) as %+v", there, p)
	}
	n.wantUnchanged()
	l.deliver(ops(becomesReady("http")))
	l.awaitRunning("new")
	l.awaitGone("old")
	wantStopThenRun(t, n.takeChanges(), "StopContainer "+left[0]+" 7", "RunPodSandbox new")
	n.wantLeft(1, 1)
}

func wantStopThenRun(t *testing.T, changes []string, stop, run string) {
	t.Helper()
	stopped, ran := slices.Index(changes, stop), slices.Index(changes, run)
	if stopped < 0 || ran < stopped {
		t.Errorf("the calls were %q; want %q, and %q after it", changes, stop, run)
	}
}

// Directories and logs of a pod that is gone are removed once all sources are ready. Logs without a pod's directory
// stay, because they may not be podexecd's.
func TestOrphanedDirectories(t *testing.T) {
	n := newNode(t)
	podDir := filepath.Join(n.podsDir, "gone")
	logDir := podmeta.LogDir(n.logsDir, "default", "web", "gone")
	foreign := podmeta.LogDir(n.logsDir, "default", "web", "foreign")
	for _, dir := range []string{filepath.Join(podDir, "volumes"), filepath.Join(logDir, "main"), filepath.Join(foreign, "main")} {
		if err := os.MkdirAll(dir, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	l := n.start()
	l.deliver(synced(client.Source{Name: "file", Ready: true}, client.Source{Name: "http"}))
	l.housekeep()
	if !exists(t, podDir) || !exists(t, logDir) {
		t.Fatal("a directory was removed while a source wasn't ready")
	}
	l.deliver(ops(becomesReady("http")))
	eventually(t, "the pod's directory is gone", func() bool { return !exists(t, podDir) })
	if exists(t, logDir) {
		t.Error("the logs are left, and cannot be found any more")
	}
	l.housekeep()
	if !exists(t, foreign) {
		t.Error("logs of a pod that has no directory here were removed")
	}
	if shown := l.board.All(); len(shown) > 0 {
		t.Errorf("the board has %+v; want nothing", shown)
	}
}
