package execsvc

import (
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/podstream/podstream/client"
	"github.com/podstream/podstream/internal/execsvc/criconfig"
)

// After a restart a pod that is still wanted goes on as it is: the runtime is told nothing.
func TestRestartAdoptsWhatRuns(t *testing.T) {
	n := newNode(t)
	pod := newPod("a", "web", "file")
	left := n.leave(pod)
	before := n.server.Calls()
	l := n.start()
	l.deliver(ops(change(client.Add, true, pod)))
	l.deliver(synced(client.Source{Name: "file", Ready: true}))
	if id := l.awaitRunning("a"); id != left[0] {
		t.Errorf("container %s runs; want %s, which ran before", id, left[0])
	}
	l.housekeep()
	n.wantUnchanged()
	after := n.server.Calls()
	for _, method := range []string{"RunPodSandbox", "CreateContainer", "StartContainer", "StopContainer", "PullImage"} {
		if after[method] != before[method] {
			t.Errorf("%s was called", method)
		}
	}
}

// What was left from before is removed once its source is ready and doesn't have it, and not before; it gets the grace period
// that it was made with.
func TestLeftoverIsRemovedWhenItsSourceIsReady(t *testing.T) {
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
		t.Errorf("the leftover wasn't stopped with its grace period: %q", got)
	}
	n.wantLeft(0, 0)
	if exists(t, filepath.Join(n.podsDir, "old")) || exists(t, criconfig.LogDir(n.logsDir, "default", "web", "old")) {
		t.Error("the leftover's directory or logs are left")
	}
}

// Sources that say that they are ready within a catch-up have nothing removed yet: the Synced says which sources there are.
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

// A source that gives a leftover's name to another pod has spoken for it: the leftover ends at once, and before the pod starts.
func TestLeftoverMakesWayForItsSuccessor(t *testing.T) {
	n := newNode(t)
	left := n.leave(newPod("old", "web", "file"))
	l := n.start()
	l.deliver(ops(change(client.Add, false, newPod("new", "web", "file"))))
	l.awaitRunning("new")
	l.awaitGone("old")
	wantStopThenRun(t, n.takeChanges(), "StopContainer "+left[0]+" 7", "RunPodSandbox new")
	n.wantLeft(1, 1)
}

// A pod waits for a leftover of its name from another source until that source is ready, and then takes its place.
func TestPodWaitsForLeftoverOfAnotherSource(t *testing.T) {
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
		t.Errorf("the runtime was told to %q; want %q, and %q after it", changes, stop, run)
	}
}

// Directories and logs of a pod of which nothing else is left go once all sources are ready. Logs without a pod's directory
// aren't this agent's for certain, and stay.
func TestLeftoverDirectories(t *testing.T) {
	n := newNode(t)
	podDir := filepath.Join(n.podsDir, "gone")
	logDir := criconfig.LogDir(n.logsDir, "default", "web", "gone")
	foreign := criconfig.LogDir(n.logsDir, "default", "web", "foreign")
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
		t.Error("the logs are left, and nothing tells of them any more")
	}
	l.housekeep()
	if !exists(t, foreign) {
		t.Error("logs of a pod that has no directory here were removed")
	}
	if shown := l.board.All(); len(shown) > 0 {
		t.Errorf("the board has %+v; want nothing", shown)
	}
}
