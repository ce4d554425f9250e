package image_test

import (
	"os"
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"
)

func writeFile(t *testing.T, path, text string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o700); err != nil { //nolint:gosec // It may be a plugin.
		t.Fatal(err)
	}
}

// ask requests the pod's image; the pull begins.
func (w *world) ask(p *v1.Pod) {
	w.t.Helper()
	if _, wait, err := w.puller.Ensure(w.t.Context(), p, &p.Spec.Containers[0], nil); wait == nil || !wait.Pulling || err != nil {
		w.t.Fatalf("%+v, %v", wait, err)
	}
}

// TestAtTheSameTime: a pod without the credentials doesn't get an image that another one pulls at that time.
func TestAtTheSameTime(t *testing.T) {
	w := newWorld(t)
	w.runtime.hold, w.runtime.begun = make(chan struct{}), make(chan struct{}, 10)
	w.secret("a", "pull", "uid-a", "alice", "sesame")
	first, second := pod("a", ifNotPresent, app, "pull"), pod("b", ifNotPresent, app)
	w.ask(first)
	w.ask(second)
	<-w.runtime.begun
	<-w.runtime.begun
	close(w.runtime.hold)
	w.await(first)
	w.wantRuns("the pod with the secret", first)
	w.wantRefused("the pod without", second)
	w.wantPulls("they", 2)
}

// TestSharedPull: pods of one namespace whose different secrets have the same login share a pull, and each may use the
// image by its own secret from then on.
func TestSharedPull(t *testing.T) {
	w := newWorld(t)
	w.runtime.hold, w.runtime.begun = make(chan struct{}), make(chan struct{}, 10)
	w.secret("a", "one", "uid-1", "alice", "sesame")
	w.secret("a", "two", "uid-2", "alice", "sesame")
	first, second := pod("a", ifNotPresent, app, "one"), pod("a", ifNotPresent, app, "two")
	w.ask(first)
	<-w.runtime.begun
	w.ask(second)
	// The second request joins the pull when its credentials are found.
	for len(w.puller.Pulls(second.UID)) == 0 || w.puller.Pulls(second.UID)[0].Started.IsZero() {
		w.await(second)
	}
	close(w.runtime.hold)
	w.await(first)
	w.wantRuns("the first", first)
	w.wantRuns("the second", second)
	w.wantPulls("they", 1)
	// Only the coordinates show it when a secret has been rotated.
	w.secret("a", "one", "uid-1", "alice", "new1")
	w.secret("a", "two", "uid-2", "alice", "new2")
	w.wantRuns("the first secret, rotated", pod("a", ifNotPresent, app, "one"))
	w.wantRuns("the second secret, rotated", pod("a", ifNotPresent, app, "two"))
	w.wantPulls("they", 0)
}

// TestGoneDuringPull: the pod that pulls a private image is removed. What the runtime has after that isn't for others.
func TestGoneDuringPull(t *testing.T) {
	w := newWorld(t)
	w.runtime.hold, w.runtime.begun = make(chan struct{}), make(chan struct{}, 10)
	w.secret("a", "pull", "uid-a", "alice", "sesame")
	first := pod("a", ifNotPresent, app, "pull")
	w.ask(first)
	<-w.runtime.begun
	w.puller.Drop(first.UID)
	close(w.runtime.hold)
	w.wantRefused("another pod", pod("b", ifNotPresent, app))
	w.restart()
	w.wantRefused("another pod, after a restart", pod("b", ifNotPresent, app))
	w.wantRuns("a pod with the secret", pod("a", ifNotPresent, app, "pull"))
}

// TestRestartsOfAContainer: a container's restart verifies again, and needs no registry.
func TestRestartsOfAContainer(t *testing.T) {
	w := newWorld(t)
	w.secret("a", "pull", "uid-a", "alice", "sesame")
	p := pod("a", ifNotPresent, app, "pull")
	w.wantRuns("at first", p)
	w.runtime.set(func() { clear(w.runtime.offers) })
	w.wantPulls("it", 1)
	for range 3 {
		w.wantRuns("again", p)
		w.restart()
	}
	w.wantPulls("the restarts", 0)
	delete(w.secrets, "api a/pull")
	w.wantRefused("without its secret", p)
}

// TestNoRecord: if the pull can't be recorded, the container that waited for it starts, and nothing pulls in a loop.
func TestNoRecord(t *testing.T) {
	w := newWorld(t)
	w.secret("a", "pull", "uid-a", "alice", "sesame")
	pulled := w.dir + "/image_manager/pulled"
	if err := os.Remove(pulled); err != nil {
		t.Fatal(err)
	}
	writeFile(t, pulled, "")
	p := pod("a", ifNotPresent, app, "pull")
	w.wantRuns("the pod", p)
	w.wantPulls("it", 1)
	w.wantRefused("another pod", pod("b", ifNotPresent, app))

	pulling := w.dir + "/image_manager/pulling"
	if err := os.RemoveAll(pulling); err != nil {
		t.Fatal(err)
	}
	writeFile(t, pulling, "")
	w.wantPulls("it", 1)
	got := w.starts(pod("a", ifNotPresent, "registry.example/public/app:1"))
	if want := `Failed to record image pull intent for container image "registry.example/public/app:1"`; !strings.Contains(got, want) {
		t.Errorf("%s; want %q", got, want)
	}
	w.wantPulls("without a record", 0)
}
