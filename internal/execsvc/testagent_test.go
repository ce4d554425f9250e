package execsvc

import (
	"context"
	"fmt"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podstream/podstream/client"
	"github.com/podstream/podstream/internal/execsvc/cri/credential"
	"github.com/podstream/podstream/internal/execsvc/cri/handler"
	"github.com/podstream/podstream/internal/execsvc/cri/image"
	"github.com/podstream/podstream/internal/execsvc/cri/runtime"
	"github.com/podstream/podstream/internal/execsvc/loop/startlatency"
	"github.com/podstream/podstream/internal/execsvc/loop/store"
	"github.com/podstream/podstream/internal/execsvc/pod/events"
	"github.com/podstream/podstream/internal/execsvc/pod/objects"
	"github.com/podstream/podstream/internal/execsvc/pod/podview"
	"github.com/podstream/podstream/internal/execsvc/reclaim/containergc"
	"github.com/podstream/podstream/internal/execsvc/setup/cgroup"
	"github.com/podstream/podstream/internal/execsvc/setup/dns"
	"github.com/podstream/podstream/internal/execsvc/setup/podsetup"
	"github.com/podstream/podstream/internal/execsvc/setup/volume"
	"github.com/podstream/podstream/internal/kubeletdir"
	podexecv1 "github.com/podstream/podstream/proto/podexec/v1"
)

const (
	syncing     = podexecv1.WorkerState_WORKER_STATE_SYNCING
	terminating = podexecv1.WorkerState_WORKER_STATE_TERMINATING
	finished    = podexecv1.WorkerState_WORKER_STATE_FINISHED
	unclaimed   = podexecv1.WorkerState_WORKER_STATE_UNSPECIFIED
)

const (
	relistPeriod = 20 * time.Millisecond
	// housekeepingPeriod differs from all other periods: the clock recognizes the ticker by it.
	housekeepingPeriod = 21 * time.Millisecond
)

// testAgent is a running Agent of a test.
type testAgent struct {
	*Agent
	n      *node
	board  *podview.Board
	events *events.Recorder
	store  string
	// registry has the agent's metrics.
	registry *prometheus.Registry
	// rounds are the ticks of housekeeping, and ahead is how far the agent's clock is ahead of the real one.
	rounds, ahead atomic.Int64
	// stop stops the agent, as a restart of podexecd does.
	stop func()
}

// start starts an agent with an empty store. All agents have the same agent ID.
func (n *node) start() *testAgent {
	n.t.Helper()
	return n.startFrom(filepath.Join(n.t.TempDir(), "podexecd.db"))
}

// startFrom starts an agent with the store of an earlier one.
func (n *node) startFrom(path string) *testAgent {
	n.t.Helper()
	opened, state, err := store.Open(store.Config{Path: path})
	if err != nil {
		n.t.Fatal(err)
	}
	l := &testAgent{n: n, board: podview.New(), events: events.New(events.Config{}), store: path, registry: prometheus.NewRegistry()}
	ctx, cancel := context.WithCancel(context.Background())
	storing, stopStore := context.WithCancel(context.Background())
	var group, last sync.WaitGroup
	last.Go(func() { opened.Run(storing) })
	known := objects.New(objects.Config{})
	keyring, err := credential.New(credential.Config{})
	if err != nil {
		n.t.Fatal(err)
	}
	images := image.New(image.Config{Images: n.Images, Credentials: keyring, Events: l.events, Done: func(uid types.UID) { l.Wake(uid) }})
	handlers := handler.New(handler.Config{Runtime: n.CRI})
	cgroups, err := cgroup.New(n.cgroups)
	if err != nil {
		n.t.Fatal(err)
	}
	criRuntime := runtime.New(runtime.Config{
		Runtime: n.CRI, Images: images, Hooks: handlers, Agent: "me", LogsDir: n.logsDir, PodDirs: kubeletdir.Pods{Current: n.podsDir},
		RestartBackoffBase: 20 * time.Millisecond, RestartBackoffMax: 20 * time.Millisecond,
		Metrics: l.registry, Node: n.runtimeNode,
	})
	l.Agent = New(Config{
		Runtime: criRuntime, Garbage: containergc.New(containergc.Config{Runtime: criRuntime, LogsDir: n.logsDir, MaxContainers: -1}),
		Images: images, Prober: handlers, Objects: known, Pressure: n.pressed,
		PodSetup: podsetup.New(podsetup.Config{
			PodDirs: kubeletdir.Pods{Current: n.podsDir}, Cgroups: cgroups, Objects: known,
			Volumes: volume.New(volume.Config{PodDirs: kubeletdir.Pods{Current: n.podsDir}, Plugins: n.plugins}),
			HostIPs: func() []string { return nil }, DNS: dns.Settings{ResolvConf: "/etc/resolv.conf"},
		}),
		Node: n.admits, AskRuntime: n.askRuntime,
		Store: opened, Restored: state, Board: l.board, Events: l.events, RuntimeName: "containerd", Network: n.checkNetwork, Final: n.final,
		Starts: startlatency.New(startlatency.Config{Metrics: l.registry}), Metrics: l.registry,
		RelistPeriod: relistPeriod, HousekeepingPeriod: n.housekeeping, MaxRemovalsPerMinute: n.maxRemovals, RetryPause: n.retryPause,
		Clock: roundsClock{ctx: ctx, rounds: &l.rounds, ahead: &l.ahead, group: &group},
	})
	group.Go(func() { l.Run(ctx) })
	l.stop = sync.OnceFunc(func() {
		cancel()
		group.Wait()
		images.Close()
		stopStore()
		last.Wait()
	})
	n.t.Cleanup(l.stop)
	return l
}

// housekeep waits until housekeeping has run twice from beginning to end. A tick is received only after the round
// before.
func (l *testAgent) housekeep() {
	l.n.t.Helper()
	began := l.rounds.Load()
	eventually(l.n.t, "housekeeping goes on", func() bool { return l.rounds.Load() >= began+4 })
}

func (l *testAgent) deliver(e client.Event) {
	l.n.t.Helper()
	ctx, cancel := context.WithTimeout(l.n.t.Context(), 20*time.Second)
	defer cancel()
	if err := l.Deliver(ctx, e); err != nil {
		l.n.t.Fatalf("Deliver: %v", err)
	}
}

// shown returns a pod of the pod view; false if it isn't there.
func (l *testAgent) shown(uid types.UID) (podview.Pod, bool) { return l.board.Get(uid) }

// await waits until ok reports true for the pod in the pod view.
func (l *testAgent) await(uid types.UID, what string, ok func(p podview.Pod) bool) podview.Pod {
	l.n.t.Helper()
	var p podview.Pod
	eventually(l.n.t, fmt.Sprintf("pod %s %s", uid, what), func() bool {
		var there bool
		p, there = l.shown(uid)
		return there && ok(p)
	})
	return p
}

// awaitRunning waits until a desired pod runs, and returns the ID of its container.
func (l *testAgent) awaitRunning(uid types.UID) string {
	l.n.t.Helper()
	p := l.await(uid, "runs", func(p podview.Pod) bool {
		return p.Desired && p.State == syncing && p.Status != nil && p.Status.Phase == v1.PodRunning && len(p.Status.ContainerStatuses) == 1
	})
	return strings.TrimPrefix(p.Status.ContainerStatuses[0].ContainerID, "containerd://")
}

// awaitGone waits until the pod view doesn't have the pod.
func (l *testAgent) awaitGone(uid types.UID) {
	l.n.t.Helper()
	eventually(l.n.t, fmt.Sprintf("pod %s is gone", uid), func() bool {
		_, there := l.shown(uid)
		return !there
	})
}

// wantUnclaimed checks that an orphaned pod still runs and has no worker.
func (l *testAgent) wantUnclaimed(uid types.UID) {
	l.n.t.Helper()
	p, there := l.shown(uid)
	if !there || p.Desired || p.State != unclaimed || p.Status == nil || p.Status.Phase != v1.PodRunning {
		l.n.t.Fatalf("pod %s is shown (%v) as %+v; want it running without a worker", uid, there, p)
	}
}

// leave runs the pods with an agent that is then stopped, and returns the IDs of their containers.
func (n *node) leave(pods ...*v1.Pod) []string {
	n.t.Helper()
	l := n.start()
	var ids []string
	for _, pod := range pods {
		l.deliver(ops(change(client.Add, true, pod)))
		ids = append(ids, l.awaitRunning(pod.UID))
	}
	l.stop()
	n.takeChanges()
	return ids
}
