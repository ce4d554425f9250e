package execsvc

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/utils/ptr"

	"github.com/podstream/podstream/client"
	"github.com/podstream/podstream/internal/execsvc/board"
	"github.com/podstream/podstream/internal/execsvc/status"
	"github.com/podstream/podstream/internal/execsvc/storage"
	"github.com/podstream/podstream/internal/execsvc/store"
)

// shortest is the least that a container gets to end, in seconds.
const shortest = " 2"

const fullMessage = `Usage of EmptyDir volume "data" exceeds the limit "1Mi". `

// withData is the pod with an emptyDir that may hold 1 MiB.
func withData(pod *v1.Pod) *v1.Pod {
	source := &v1.EmptyDirVolumeSource{SizeLimit: ptr.To(resource.MustParse("1Mi"))}
	pod.Spec.Volumes = []v1.Volume{{Name: "data", VolumeSource: v1.VolumeSource{EmptyDir: source}}}
	pod.Spec.Containers[0].VolumeMounts = []v1.VolumeMount{{Name: "data", MountPath: "/data"}}
	return pod
}

// fill fills the pod's emptyDir, wherever that was made.
func (n *node) fill(uid string) {
	n.t.Helper()
	dirs, err := filepath.Glob(filepath.Join(n.podsDir, uid, "volumes", "*", "data"))
	if err != nil || len(dirs) != 1 {
		n.t.Fatalf("the pod's emptyDirs are %q (%v); want one", dirs, err)
	}
	if err := os.WriteFile(filepath.Join(dirs[0], "file"), bytes.Repeat([]byte("x"), 2<<20), 0o600); err != nil {
		n.t.Fatal(err)
	}
}

// guard has what the pods use of the disk looked after, until the test or the life ends.
func (l *life) guard() {
	watcher := storage.New(storage.Config{
		Pods: l.Evictable, Evict: l.EvictOverLimit, Dir: l.cfg.World.EmptyDir, LogsDir: l.n.logsDir, Stats: l.n.cri, Period: 10 * time.Millisecond,
	})
	ctx, cancel := context.WithCancel(context.Background())
	var running sync.WaitGroup
	running.Go(func() { watcher.Run(ctx) })
	stop := l.stop
	l.stop = sync.OnceFunc(func() {
		cancel()
		running.Wait()
		stop()
	})
	l.n.t.Cleanup(l.stop)
}

func isEvicted(p board.Pod) bool {
	return p.State == finished && p.Desired && p.Status.Phase == v1.PodFailed && p.Status.Reason == "Evicted" && p.Status.Message == fullMessage
}

// A pod of the API server that exceeds a limit fails and is stopped at once; its volumes are gone, and it stays so.
func TestEviction(t *testing.T) {
	n := newNode(t)
	l := n.start()
	l.guard()
	l.deliver(at(1, ops(change(client.Add, true, withData(newPod("a", "web", "api")), withData(newPod("b", "other", "api"))))))
	a, b := l.awaitRunning("a"), l.awaitRunning("b")
	n.takeChanges()
	n.fill("a")
	l.await("a", "is evicted", isEvicted)
	if got := n.takeChanges(); !slices.Contains(got, "StopContainer "+a+shortest) {
		t.Errorf("the runtime was told to %q; want the container stopped within the shortest time", got)
	}
	if exists(t, filepath.Join(n.podsDir, "a")) {
		t.Error("the pod's directory is left")
	}
	l.housekeep()
	l.stop()
	again := n.startFrom(l.store)
	again.housekeep()
	again.await("a", "is known to have been evicted", isEvicted)
	if now := again.awaitRunning("b"); now != b {
		t.Errorf("the other pod runs as %s; want %s", now, b)
	}
	if got := n.takeChanges(); slices.Contains(got, "RunPodSandbox a") || slices.Contains(got, "StartContainer") {
		t.Errorf("the runtime was told to %q; want nothing started", got)
	}
}

// begunAnew waits until the pod runs as another container than before, which is its first.
func (l *life) begunAnew(before string) {
	l.n.t.Helper()
	l.await("a", "begins anew", func(p board.Pod) bool {
		if p.State != syncing || p.Status == nil || p.Status.Phase != v1.PodRunning || len(p.Status.ContainerStatuses) != 1 {
			return false
		}
		c := p.Status.ContainerStatuses[0]
		return !strings.HasSuffix(c.ContainerID, before) && c.RestartCount == 0 && p.Status.Reason == ""
	})
	l.housekeep()
	l.n.wantLeft(1, 1)
}

// A static pod begins anew after it was evicted, with nothing left of what it had.
func TestEvictedStaticPodBeginsAnew(t *testing.T) {
	n := newNode(t)
	l := n.start()
	l.guard()
	l.deliver(ops(change(client.Add, true, withData(newPod("a", "web", "file")))))
	for range 2 {
		id := l.awaitRunning("a")
		n.takeChanges()
		n.fill("a")
		l.begunAnew(id)
		if got := n.takeChanges(); !slices.Contains(got, "StopContainer "+id+shortest) {
			t.Errorf("the runtime was told to %q; want the container stopped within the shortest time", got)
		}
		if files, err := filepath.Glob(filepath.Join(n.podsDir, "a/volumes/*/data/*")); err != nil || len(files) > 0 {
			t.Errorf("its volume has %q (%v); want nothing", files, err)
		}
	}
}

// So does one that was being evicted when this agent was stopped.
func TestEvictedStaticPodBeginsAnewAfterRestart(t *testing.T) {
	n := newNode(t)
	l := n.start()
	l.deliver(at(1, ops(change(client.Add, true, newPod("a", "web", "file")))))
	id := l.awaitRunning("a")
	l.stop()
	remembered, _, err := store.Open(store.Config{Path: l.store})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	var running sync.WaitGroup
	running.Go(func() { remembered.Run(ctx) })
	end := store.End{Namespace: "default", Name: "web", Source: "file", Grace: 1, Deadline: time.Now(), Failure: &status.Failure{Reason: "Evicted", Message: fullMessage}}
	err = remembered.SetEnd(ctx, "a", end)
	cancel()
	running.Wait()
	if err != nil {
		t.Fatal(err)
	}
	n.startFrom(l.store).begunAnew(id)
}

// Critical pods aren't evicted, nor those that are to end or were refused.
func TestEvictable(t *testing.T) {
	n := newNode(t)
	l := n.start()
	classed, system, user := newPod("c", "classed", "file"), newPod("s", "system", "api"), newPod("u", "user", "api")
	classed.Spec.PriorityClassName = "system-node-critical"
	system.Spec.Priority, user.Spec.Priority = ptr.To[int32](2_000_000_000), ptr.To[int32](1_999_999_999)
	ended := newPod("e", "ended", "api", "exit", "0")
	ended.Spec.RestartPolicy = v1.RestartPolicyNever
	refused := withClaim(newPod("r", "refused", "api"))
	l.deliver(ops(change(client.Add, true, classed, newPod("f", "static", "file")), change(client.Add, true, system, user, ended, refused)))
	for _, pod := range []*v1.Pod{classed, system, user} {
		l.awaitRunning(pod.UID)
	}
	l.await("e", "has ended", func(p board.Pod) bool { return p.State == finished })
	l.await("r", "is refused", func(p board.Pod) bool { return p.Status != nil && p.Status.Phase == v1.PodFailed })
	var got []string
	for _, pod := range l.Evictable() {
		got = append(got, pod.Name)
	}
	slices.Sort(got)
	if diff := cmp.Diff([]string{"static", "user"}, got); diff != "" {
		t.Errorf("evictable (-want +got):\n%s", diff)
	}
}

// The pause doubles from eviction to eviction, up to a bound, until a pod has gone on for long.
func TestEvictionPause(t *testing.T) {
	var e eviction
	now := time.Now()
	for i, step := range []struct{ ranFor, want time.Duration }{
		{0, 10 * time.Second},
		{time.Second, 20 * time.Second},
		{forgivenAfter - 1, 40 * time.Second},
		{time.Minute, 80 * time.Second},
		{0, 160 * time.Second},
		{0, 5 * time.Minute},
		{0, 5 * time.Minute},
		{forgivenAfter, 10 * time.Second},
	} {
		now = now.Add(e.pause + step.ranFor)
		e = e.then(now, firstEvictionPause)
		if e.pause != step.want || !e.at.Equal(now) {
			t.Errorf("eviction %d, after it ran for %v: %+v; want a pause of %v", i, step.ranFor, e, step.want)
		}
		if same := e.then(now, firstEvictionPause); same != e {
			t.Errorf("looked at again it is %+v; want %+v", same, e)
		}
	}
}
