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

	"github.com/podstream/podstream/internal/execsvc/observed"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// fakeRuntime has the pods that a test gives it, and tells of events when the test says so.
type fakeRuntime struct {
	clock *testingclock.FakeClock

	mu   sync.Mutex
	pods []*observed.Pod
	err  error
	// hold keeps a List under way, after it has read, until it is closed. holdStatus does so with the Status of a pod.
	hold       chan struct{}
	holdStatus map[types.UID]chan struct{}
	// lists, statuses and watches count the calls.
	lists, statuses, watches int

	// watch is what Watch returns; nil: it listens, tells what comes out of events, and returns what comes out of breaks.
	watch  error
	events chan *observed.Pod
	breaks chan error
}

// set is what the runtime has from now on.
func (f *fakeRuntime) set(pods ...*observed.Pod) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.pods, f.err = pods, nil
}

func (f *fakeRuntime) fail(err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.err = err
}

// holdList keeps what List has read from now on back, until the returned function is called.
func (f *fakeRuntime) holdList() (release func()) {
	f.mu.Lock()
	defer f.mu.Unlock()
	hold := make(chan struct{})
	f.hold = hold
	return func() {
		f.mu.Lock()
		defer f.mu.Unlock()
		f.hold = nil
		close(hold)
	}
}

// holdPod does so with the Status of one pod.
func (f *fakeRuntime) holdPod(uid types.UID) (release func()) {
	f.mu.Lock()
	defer f.mu.Unlock()
	hold := make(chan struct{})
	f.holdStatus[uid] = hold
	return func() {
		f.mu.Lock()
		defer f.mu.Unlock()
		delete(f.holdStatus, uid)
		close(hold)
	}
}

func (f *fakeRuntime) List(ctx context.Context) ([]*observed.Pod, error) {
	f.mu.Lock()
	f.lists++
	var out []*observed.Pod
	for _, p := range f.pods {
		out = append(out, f.read(p))
	}
	err, hold := f.err, f.hold
	f.mu.Unlock()
	return out, held(ctx, hold, err)
}

func (f *fakeRuntime) Status(ctx context.Context, uid types.UID) (*observed.Pod, error) {
	f.mu.Lock()
	f.statuses++
	out := f.read(&observed.Pod{UID: uid})
	for _, p := range f.pods {
		if p.UID == uid {
			out = f.read(p)
			// What only a full reading has.
			out.Name = "in full"
		}
	}
	err, hold := f.err, f.holdStatus[uid]
	f.mu.Unlock()
	return out, held(ctx, hold, err)
}

func held(ctx context.Context, hold chan struct{}, err error) error {
	if hold != nil {
		select {
		case <-hold:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return err
}

func (f *fakeRuntime) Watch(ctx context.Context, changed func(*observed.Pod)) error {
	f.mu.Lock()
	f.watches++
	err := f.watch
	f.mu.Unlock()
	if err != nil {
		return err
	}
	changed(nil)
	for {
		select {
		case told := <-f.events:
			changed(told)
		case err := <-f.breaks:
			return err
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// watchReturns is what Watch returns from now on; nil: it works.
func (f *fakeRuntime) watchReturns(err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.watch = err
}

func (f *fakeRuntime) read(p *observed.Pod) *observed.Pod {
	out := *p
	out.ReadAt = f.clock.Now()
	return &out
}

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

// run runs a test in a bubble in which a PLEG runs on a runtime without events, once it has relisted for the first time.
func run(t *testing.T, pods []*observed.Pod, test func(h *harness)) {
	t.Helper()
	start(t, pods, observed.ErrNoEvents, false, test)
}

// runEvented does so on a runtime with events. It has been listed twice: first of all, and since it listens.
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

// runFollowed does so on a runtime without events, and the kernel tells what ends. The pods have been read in full, and it wants to be
// listed in 29 s.
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

// relist lets the time to the next relist pass, and waits until that is done or stuck.
func (h *harness) relist() { h.step(time.Second) }

// step lets time pass, second by second, and waits until what it brought is done or stuck.
func (h *harness) step(d time.Duration) {
	synctest.Wait()
	for ; d > 0; d -= time.Second {
		h.clock.Step(min(d, time.Second))
		synctest.Wait()
	}
}

// tell lets the runtime tell of events: what the pods are like by each, or nil if it doesn't say whose it is.
func (h *harness) tell(told ...*observed.Pod) {
	for _, pod := range told {
		h.runtime.events <- pod
	}
	synctest.Wait()
}

// anything is an event by which anything may have happened to a pod.
func anything(uid types.UID) *observed.Pod { return &observed.Pod{UID: uid} }

// wantLists checks how often the runtime has been listed since the last time.
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

// wantStatuses checks how many pods have been read since the last time.
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

// want checks the events since the last time, and that they were announced.
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
