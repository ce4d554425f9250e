package pleg

import (
	"bytes"
	"context"
	"log/slog"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/goleak"
	"k8s.io/apimachinery/pkg/types"
	testingclock "k8s.io/utils/clock/testing"

	"github.com/podstream/podstream/internal/execsvc/pod/observed"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

type harness struct {
	*PLEG
	t        *testing.T
	runtime  *fakeRuntime
	exits    *fakeExits
	clock    *testingclock.FakeClock
	registry *prometheus.Registry
	log      *bytes.Buffer
	// lists and statuses are the calls that were checked.
	lists, statuses int
}

// run runs a test in a bubble with a PLEG on a runtime without events, after its first relist.
func run(t *testing.T, pods []*observed.Pod, test func(h *harness)) {
	t.Helper()
	start(t, pods, observed.ErrNoEvents, false, test)
}

// runEvented does so on a runtime with events. It has been listed twice: at the start, and after the stream was opened.
func runEvented(t *testing.T, pods []*observed.Pod, test func(h *harness)) {
	t.Helper()
	start(t, pods, nil, false, func(h *harness) {
		h.relist()
		h.wantLists(2)
		h.isReady()
		h.Take()
		test(h)
	})
}

func start(t *testing.T, pods []*observed.Pod, watch error, follow bool, test func(h *harness)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		clock := testingclock.NewFakeClock(time.Unix(1000, 0))
		h := &harness{t: t, clock: clock, registry: prometheus.NewRegistry(), log: &bytes.Buffer{}, runtime: &fakeRuntime{
			clock: clock, pods: pods, watch: watch, events: make(chan *observed.Pod), breaks: make(chan error), holdStatus: map[types.UID]chan struct{}{},
		}}
		cfg := Config{Runtime: h.runtime, Clock: clock, Metrics: h.registry, Logger: slog.New(slog.NewTextHandler(h.log, nil))}
		if follow {
			h.exits = newFakeExits()
			cfg.Exits = h.exits
		}
		h.PLEG = New(cfg)
		ctx, cancel := context.WithCancel(t.Context())
		var group sync.WaitGroup
		group.Go(func() { h.Run(ctx) })
		defer group.Wait()
		defer cancel()
		synctest.Wait()
		h.log.Reset()
		test(h)
	})
}

// runFollowed does so on a runtime without events, and the kernel reports ends. The pods have been read in full, and
// the next relist is in 29 s.
func runFollowed(t *testing.T, pods []*observed.Pod, test func(h *harness)) {
	t.Helper()
	start(t, pods, observed.ErrNoEvents, true, func(h *harness) {
		for _, pod := range pods {
			h.read(pod.UID)
		}
		h.step(time.Second)
		h.isReady()
		h.Take()
		h.log.Reset()
		h.lists, h.statuses = h.runtime.lists, h.runtime.statuses
		test(h)
	})
}

// read reads a pod as its worker does.
func (h *harness) read(uid types.UID) {
	h.t.Helper()
	if _, err := h.Current(h.t.Context(), uid); err != nil {
		h.t.Fatal(err)
	}
	synctest.Wait()
}

// relist advances to the next relist, and waits until that is done or blocked.
func (h *harness) relist() { h.step(time.Second) }

// step advances the time, second by second, and waits until the consequences are done or blocked.
func (h *harness) step(d time.Duration) {
	synctest.Wait()
	for ; d > 0; d -= time.Second {
		h.clock.Step(min(d, time.Second))
		synctest.Wait()
	}
}

// report makes the runtime send events with the state of these pods, or nil for an event without a pod.
func (h *harness) report(reported ...*observed.Pod) {
	for _, pod := range reported {
		h.runtime.events <- pod
	}
	synctest.Wait()
}

// anything is an event after which anything of a pod may have changed.
func anything(uid types.UID) *observed.Pod { return &observed.Pod{UID: uid} }

// wantLists checks how often the runtime was listed since the last check.
func (h *harness) wantLists(n int) {
	h.t.Helper()
	h.runtime.mu.Lock()
	defer h.runtime.mu.Unlock()
	if got := h.runtime.lists - h.lists; got != n {
		h.t.Fatalf("%d relists; want %d", got, n)
	}
	h.lists = h.runtime.lists
}

// wantCurrent checks the state of a pod's container that Current has, and how many pods were read for it.
func (h *harness) wantCurrent(uid types.UID, want *observed.Pod, calls int) {
	h.t.Helper()
	pod, err := h.Current(h.t.Context(), uid)
	if err != nil {
		h.t.Fatal(err)
	}
	if pod.UID != uid || len(Compare(want, pod)) > 0 {
		h.t.Fatalf("Current has %+v; want %+v", pod, want)
	}
	if !isEmpty(want) && pod.Name != "in full" {
		h.t.Fatalf("Current has %+v, which isn't read in full", pod)
	}
	h.wantStatuses(calls)
}

// wantStatuses checks how many pods were read since the last check.
func (h *harness) wantStatuses(n int) {
	h.t.Helper()
	h.runtime.mu.Lock()
	defer h.runtime.mu.Unlock()
	if got := h.runtime.statuses - h.statuses; got != n {
		h.t.Fatalf("%d pods were read; want %d", got, n)
	}
	h.statuses = h.runtime.statuses
}

func (h *harness) isReady() bool {
	select {
	case <-h.Ready():
		return true
	default:
		return false
	}
}

// want checks the events since the last check, and that Ready had a value.
func (h *harness) want(events ...Event) {
	h.t.Helper()
	if ready := h.isReady(); ready != (len(events) > 0) {
		h.t.Errorf("ready is %v with events %v", ready, events)
	}
	if diff := cmp.Diff(events, h.Take()); diff != "" {
		h.t.Fatalf("events (-want +got):\n%s", diff)
	}
}

// wantPods checks the states of the container c, by pod, that Pods has.
func (h *harness) wantPods(want podStates) {
	h.t.Helper()
	pods, _ := h.Pods()
	got := podStates{}
	for _, p := range pods {
		got[p.UID] = p.Containers[0].State
	}
	if diff := cmp.Diff(want, got); diff != "" {
		h.t.Fatalf("pods (-want +got):\n%s", diff)
	}
}

type podStates = map[types.UID]observed.State
