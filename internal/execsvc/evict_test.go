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
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/podstream/podstream/client"
	"github.com/podstream/podstream/internal/execsvc/decide/status"
	"github.com/podstream/podstream/internal/execsvc/loop/store"
	"github.com/podstream/podstream/internal/execsvc/pod/podview"
	"github.com/podstream/podstream/internal/execsvc/reclaim/diskusage"
	"github.com/podstream/podstream/internal/execsvc/reclaim/localstorage"
	"github.com/podstream/podstream/internal/kubeletdir"
)

// shortest is the shortest grace period of a container, in seconds.
const shortest = " 2"

const fullMessage = `Usage of EmptyDir volume "data" exceeds the limit "1Mi". `

// withData returns the pod with an emptyDir of at most 1 MiB.
func withData(pod *v1.Pod) *v1.Pod {
	source := &v1.EmptyDirVolumeSource{SizeLimit: ptr.To(resource.MustParse("1Mi"))}
	pod.Spec.Volumes = []v1.Volume{{Name: "data", VolumeSource: v1.VolumeSource{EmptyDir: source}}}
	pod.Spec.Containers[0].VolumeMounts = []v1.VolumeMount{{Name: "data", MountPath: "/data"}}
	return pod
}

// fill fills the pod's emptyDir.
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

// guard starts the local storage limits of the pods, until the agent or the test ends.
func (l *testAgent) guard() {
	files := diskusage.New(diskusage.Config{PodDirs: kubeletdir.Pods{Current: l.n.podsDir}, LogsDir: l.n.logsDir})
	watcher := localstorage.New(localstorage.Config{
		Pods: l.Evictable, Evict: l.EvictOverLimit, Meter: files, Stats: l.n.CRI, Period: 10 * time.Millisecond,
	})
	ctx, cancel := context.WithCancel(context.Background())
	var running sync.WaitGroup
	running.Go(func() { watcher.Run(ctx) })
	running.Go(func() { files.Run(ctx) })
	stop := l.stop
	l.stop = sync.OnceFunc(func() {
		cancel()
		running.Wait()
		stop()
	})
	l.n.t.Cleanup(l.stop)
}

func isEvicted(p podview.Pod) bool {
	return p.State == finished && p.Desired && p.Status.Phase == v1.PodFailed && p.Status.Reason == "Evicted" && p.Status.Message == fullMessage
}

// A pod of the API server that exceeds a limit fails and is stopped at once. Its volumes are removed, and it stays
// Failed.
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
		t.Errorf("the calls were %q; want the container stopped within the shortest time", got)
	}
	if exists(t, filepath.Join(n.podsDir, "a")) {
		t.Error("the pod's directory is left")
	}
	l.housekeep()
	l.stop()
	again := n.startFrom(l.store)
	again.housekeep()
	again.await("a", "is shown as evicted", isEvicted)
	if now := again.awaitRunning("b"); now != b {
		t.Errorf("the other pod runs as %s; want %s", now, b)
	}
	if got := n.takeChanges(); slices.Contains(got, "RunPodSandbox a") || slices.Contains(got, "StartContainer") {
		t.Errorf("the calls were %q; want nothing started", got)
	}
}

// startedAgain waits until the pod runs in its first container, which isn't the one before.
func (l *testAgent) startedAgain(before string) {
	l.n.t.Helper()
	l.await("a", "starts again", func(p podview.Pod) bool {
		if p.State != syncing || p.Status == nil || p.Status.Phase != v1.PodRunning || len(p.Status.ContainerStatuses) != 1 {
			return false
		}
		c := p.Status.ContainerStatuses[0]
		return !strings.HasSuffix(c.ContainerID, before) && c.RestartCount == 0 && p.Status.Reason == ""
	})
	l.housekeep()
	l.n.wantLeft(1, 1)
}

// An evicted static pod starts again, with empty volumes.
func TestEvictedStaticPodStartsAgain(t *testing.T) {
	n := newNode(t)
	l := n.start()
	l.guard()
	l.deliver(ops(change(client.Add, true, withData(newPod("a", "web", "file")))))
	for range 2 {
		id := l.awaitRunning("a")
		n.takeChanges()
		n.fill("a")
		l.startedAgain(id)
		if got := n.takeChanges(); !slices.Contains(got, "StopContainer "+id+shortest) {
			t.Errorf("the calls were %q; want the container stopped within the shortest time", got)
		}
		if files, err := filepath.Glob(filepath.Join(n.podsDir, "a/volumes/*/data/*")); err != nil || len(files) > 0 {
			t.Errorf("its volume has %q (%v); want nothing", files, err)
		}
	}
}

// So does a static pod that is being evicted during a restart.
func TestEvictedStaticPodStartsAgainAfterRestart(t *testing.T) {
	n := newNode(t)
	l := n.start()
	l.deliver(at(1, ops(change(client.Add, true, newPod("a", "web", "file")))))
	id := l.awaitRunning("a")
	l.stop()
	opened, _, err := store.Open(store.Config{Path: l.store})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	var running sync.WaitGroup
	running.Go(func() { opened.Run(ctx) })
	end := store.End{Namespace: "default", Name: "web", Source: "file", Grace: 1, Deadline: time.Now(), Failure: &status.Failure{Reason: "Evicted", Message: fullMessage}}
	err = opened.SetEnd(ctx, "a", end)
	cancel()
	running.Wait()
	if err != nil {
		t.Fatal(err)
	}
	n.startFrom(l.store).startedAgain(id)
}

// The pause of an evicted static pod isn't longer if the clock was set back since the eviction.
func TestEvictedStaticPodStartsAgainAfterClockSetBack(t *testing.T) {
	n := newNode(t)
	l := n.start()
	l.deliver(at(1, ops(change(client.Add, true, newPod("a", "web", "file")))))
	id := l.awaitRunning("a")
	l.press(true)
	l.Evict("a", 1, status.Failure{Reason: "Evicted", Message: lowMessage})
	evicted := l.await("a", "is evicted", isLow).Status
	l.stop()
	opened, _, err := store.Open(store.Config{Path: l.store})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	var running sync.WaitGroup
	running.Go(func() { opened.Run(ctx) })
	opened.SetStatus("a", evicted, time.Now().Add(time.Hour))
	err = opened.Flush(ctx)
	cancel()
	running.Wait()
	if err != nil {
		t.Fatal(err)
	}
	l = n.startFrom(l.store)
	l.press(false)
	l.startedAgain(id)
}

// Critical pods, ended pods and rejected pods aren't evictable.
func TestEvictable(t *testing.T) {
	n := newNode(t)
	l := n.start()
	classed, system, user := newPod("c", "classed", "file"), newPod("s", "system", "api"), newPod("u", "user", "api")
	classed.Spec.PriorityClassName = "system-node-critical"
	system.Spec.Priority, user.Spec.Priority = ptr.To[int32](2_000_000_000), ptr.To[int32](1_999_999_999)
	ended := newPod("e", "ended", "api", "exit", "0")
	ended.Spec.RestartPolicy = v1.RestartPolicyNever
	rejected := ofAnotherOS(newPod("r", "rejected", "api"))
	l.deliver(ops(change(client.Add, true, classed, newPod("f", "static", "file")), change(client.Add, true, system, user, ended, rejected)))
	for _, pod := range []*v1.Pod{classed, system, user} {
		l.awaitRunning(pod.UID)
	}
	l.await("e", "has ended", func(p podview.Pod) bool { return p.State == finished })
	l.await("r", "is rejected", func(p podview.Pod) bool { return p.Status != nil && p.Status.Phase == v1.PodFailed })
	var got []string
	for _, pod := range l.Evictable() {
		got = append(got, pod.Name)
	}
	slices.Sort(got)
	if diff := cmp.Diff([]string{"static", "user"}, got); diff != "" {
		t.Errorf("evictable (-want +got):\n%s", diff)
	}
}

// A terminating pod uses resources until the end of its grace period: its eviction shortens that.
func TestTerminatingPodIsEvicted(t *testing.T) {
	n := newNode(t)
	l := n.start()
	pod := newPod("a", "web", "api", "ignore-term")
	pod.Spec.TerminationGracePeriodSeconds = ptr.To[int64](600)
	l.deliver(ops(change(client.Add, true, pod)))
	id := l.awaitRunning("a")
	gone := pod.DeepCopy()
	gone.DeletionTimestamp, gone.DeletionGracePeriodSeconds = &metav1.Time{Time: time.Now().Add(600 * time.Second)}, ptr.To[int64](600)
	l.deliver(ops(change(client.Delete, true, gone)))
	eventually(t, "its container is stopped", func() bool { return slices.Contains(n.seenChanges(), "StopContainer "+id+" 600") })
	if pods := l.Evictable(); len(pods) != 1 || pods[0].UID != "a" {
		t.Errorf("evictable are %v; want the terminating pod", pods)
	}
	failure := status.Failure{Reason: "Evicted", Message: "m", Disrupted: true}
	if l.Evict("a", 601, failure) {
		t.Error("it is evicted with a longer grace period")
	}
	if !l.Evict("a", 1, failure) {
		t.Error("it can't be evicted")
	}
	if l.Evict("a", 1, failure) {
		t.Error("it is evicted again with the same grace period")
	}
	p := l.await("a", "has ended", func(p podview.Pod) bool { return p.State == finished })
	if p.Status.Phase != v1.PodFailed || p.Status.Reason != "Evicted" || conditionOf(p.Status, v1.DisruptionTarget) == nil {
		t.Errorf("it is %s with %q and %+v; want it evicted", p.Status.Phase, p.Status.Reason, p.Status.Conditions)
	}
	if pods := l.Evictable(); len(pods) > 0 {
		t.Errorf("evictable are %v; want none", pods)
	}
}

// So does the eviction of a removed pod that exceeds a limit of its own.
func TestRemovedPodIsEvictedForItsDisk(t *testing.T) {
	n := newNode(t)
	l := n.start()
	l.guard()
	pod := withData(newPod("a", "web", "file", "ignore-term"))
	pod.Spec.TerminationGracePeriodSeconds = ptr.To[int64](600)
	l.deliver(ops(change(client.Add, true, pod)))
	l.awaitRunning("a")
	l.deliver(ops(change(client.Remove, true, pod)))
	l.await("a", "is terminating", func(p podview.Pod) bool { return p.State == terminating })
	n.fill("a")
	l.awaitGone("a")
}

// The pause doubles with each eviction up to its maximum. It is reset after the pod has run long enough.
func TestEvictionPause(t *testing.T) {
	var e pastEviction
	now := time.Now()
	for i, step := range []struct{ ranFor, want time.Duration }{
		{0, 10 * time.Second},
		{time.Second, 20 * time.Second},
		{evictionReset - 1, 40 * time.Second},
		{time.Minute, 80 * time.Second},
		{0, 160 * time.Second},
		{0, 5 * time.Minute},
		{0, 5 * time.Minute},
		{evictionReset, 10 * time.Second},
	} {
		now = now.Add(e.pause + step.ranFor)
		e = e.then(now, firstEvictionPause)
		if e.pause != step.want || !e.at.Equal(now) {
			t.Errorf("eviction %d, after it ran for %v: %+v; want a pause of %v", i, step.ranFor, e, step.want)
		}
		if same := e.then(now, firstEvictionPause); same != e {
			t.Errorf("computed again it is %+v; want %+v", same, e)
		}
	}
}
