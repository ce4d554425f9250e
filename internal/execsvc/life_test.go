package execsvc

import (
	"context"
	"fmt"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"

	"github.com/podstream/podstream/client"
	"github.com/podstream/podstream/internal/execsvc/admit"
	"github.com/podstream/podstream/internal/execsvc/board"
	"github.com/podstream/podstream/internal/execsvc/cgroup"
	"github.com/podstream/podstream/internal/execsvc/dns"
	"github.com/podstream/podstream/internal/execsvc/events"
	"github.com/podstream/podstream/internal/execsvc/gc"
	"github.com/podstream/podstream/internal/execsvc/handler"
	"github.com/podstream/podstream/internal/execsvc/image"
	"github.com/podstream/podstream/internal/execsvc/objects"
	"github.com/podstream/podstream/internal/execsvc/runtime"
	"github.com/podstream/podstream/internal/execsvc/store"
	"github.com/podstream/podstream/internal/execsvc/volume"
	"github.com/podstream/podstream/internal/execsvc/world"
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
	// housekeepingPeriod differs from all other periods: by it the clock knows the ticker.
	housekeepingPeriod = 21 * time.Millisecond
)

// roundsClock is the real clock; its housekeeping ticker counts the ticks that were taken.
type roundsClock struct {
	clock.RealClock
	ctx    context.Context
	rounds *atomic.Int64
	group  *sync.WaitGroup
}

func (c roundsClock) NewTicker(d time.Duration) clock.Ticker {
	ticker := c.RealClock.NewTicker(d)
	if d != housekeepingPeriod {
		return ticker
	}
	taken := make(chan time.Time)
	c.group.Go(func() {
		for {
			select {
			case now := <-ticker.C():
				select {
				case taken <- now:
					c.rounds.Add(1)
				case <-c.ctx.Done():
					return
				}
			case <-c.ctx.Done():
				return
			}
		}
	})
	return countedTicker{Ticker: ticker, taken: taken}
}

type countedTicker struct {
	clock.Ticker
	taken chan time.Time
}

func (t countedTicker) C() <-chan time.Time { return t.taken }

// life is one run of an agent on the node.
type life struct {
	*Agent
	n      *node
	board  *board.Board
	events *events.Recorder
	store  string
	rounds atomic.Int64
	// stop ends the life, as a restart of podexecd does.
	stop func()
}

// start starts an agent; each is the same to the runtime, and remembers nothing.
func (n *node) start() *life {
	n.t.Helper()
	return n.startFrom(filepath.Join(n.t.TempDir(), "podexecd.db"))
}

// startFrom starts an agent that remembers what an earlier one has left in the store.
func (n *node) startFrom(path string) *life {
	n.t.Helper()
	remembered, state, err := store.Open(store.Config{Path: path})
	if err != nil {
		n.t.Fatal(err)
	}
	l := &life{n: n, board: board.New(), events: events.New(events.Config{}), store: path}
	ctx, cancel := context.WithCancel(context.Background())
	storing, stopStore := context.WithCancel(context.Background())
	var group, last sync.WaitGroup
	last.Go(func() { remembered.Run(storing) })
	images := image.New(image.Config{Images: n.images, Done: func(uid types.UID) { l.Wake(uid) }})
	handlers := handler.New(handler.Config{Runtime: n.cri})
	cgroups, err := cgroup.New(n.cgroups)
	if err != nil {
		n.t.Fatal(err)
	}
	known := objects.New(objects.Config{})
	criRuntime := runtime.New(runtime.Config{
		Runtime: n.cri, Images: images, Hooks: handlers, Agent: "me", LogsDir: n.logsDir, PodsDir: n.podsDir,
		RestartBackoffBase: 20 * time.Millisecond, RestartBackoffMax: 20 * time.Millisecond,
	})
	l.Agent = New(Config{
		Runtime: criRuntime, Garbage: gc.New(gc.Config{Runtime: criRuntime, LogsDir: n.logsDir, MaxDead: -1}),
		Images: images, Prober: handlers, Objects: known, Pressure: n.pressed,
		World: world.New(world.Config{
			PodsDir: n.podsDir, Volumes: volume.New(volume.Config{PodsDir: n.podsDir}), Cgroups: cgroups, Objects: known,
			HostIPs: func() []string { return nil }, DNS: dns.Settings{ResolvConf: "/etc/resolv.conf"},
		}),
		Node:  func() admit.Node { return admit.Node{Allocatable: n.allocatable} },
		Store: remembered, Restored: state, Board: l.board, Events: l.events, RuntimeName: "containerd", Network: n.checkNetwork, Final: n.final,
		RelistPeriod: relistPeriod, HousekeepingPeriod: housekeepingPeriod, RetryPause: 20 * time.Millisecond,
		Clock: roundsClock{ctx: ctx, rounds: &l.rounds, group: &group},
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

// housekeep waits until housekeeping has run twice from beginning to end. A tick is taken only when the round before has ended.
func (l *life) housekeep() {
	l.n.t.Helper()
	began := l.rounds.Load()
	eventually(l.n.t, "housekeeping goes on", func() bool { return l.rounds.Load() >= began+4 })
}

func (l *life) deliver(e client.Event) {
	l.n.t.Helper()
	ctx, cancel := context.WithTimeout(l.n.t.Context(), 20*time.Second)
	defer cancel()
	if err := l.Deliver(ctx, e); err != nil {
		l.n.t.Fatalf("Deliver: %v", err)
	}
}

// shown is what the board has of a pod; false if nothing.
func (l *life) shown(uid types.UID) (board.Pod, bool) { return l.board.Get(uid) }

// await waits until the board has the pod so.
func (l *life) await(uid types.UID, what string, ok func(p board.Pod) bool) board.Pod {
	l.n.t.Helper()
	var p board.Pod
	eventually(l.n.t, fmt.Sprintf("pod %s %s", uid, what), func() bool {
		var there bool
		p, there = l.shown(uid)
		return there && ok(p)
	})
	return p
}

// awaitRunning waits until a desired pod runs, and returns the ID of its container.
func (l *life) awaitRunning(uid types.UID) string {
	l.n.t.Helper()
	p := l.await(uid, "runs", func(p board.Pod) bool {
		return p.Desired && p.State == syncing && p.Status != nil && p.Status.Phase == v1.PodRunning && len(p.Status.ContainerStatuses) == 1
	})
	return strings.TrimPrefix(p.Status.ContainerStatuses[0].ContainerID, "containerd://")
}

// awaitGone waits until the board doesn't have the pod.
func (l *life) awaitGone(uid types.UID) {
	l.n.t.Helper()
	eventually(l.n.t, fmt.Sprintf("pod %s is gone", uid), func() bool {
		_, there := l.shown(uid)
		return !there
	})
}

// wantUnclaimed checks that a leftover still runs and nobody is at it.
func (l *life) wantUnclaimed(uid types.UID) {
	l.n.t.Helper()
	p, there := l.shown(uid)
	if !there || p.Desired || p.State != unclaimed || p.Status == nil || p.Status.Phase != v1.PodRunning {
		l.n.t.Fatalf("pod %s is shown (%v) as %+v; want it running and nobody at it", uid, there, p)
	}
}

// leave runs the pods in an earlier life of the agent, and returns the IDs of their containers.
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
