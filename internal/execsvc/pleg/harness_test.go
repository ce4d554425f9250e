package pleg

import (
	"bytes"
	"context"
	"github.com/podstream/podstream/internal/execsvc/observed"
	"log/slog"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"
	"k8s.io/apimachinery/pkg/types"
	testingclock "k8s.io/utils/clock/testing"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// fakeLister has the pods that a test gives it.
type fakeLister struct {
	clock *testingclock.FakeClock

	mu   sync.Mutex
	pods []*observed.Pod
	err  error
	// hold, if set, keeps a List under way, after it has read, until it is closed.
	hold chan struct{}
	// lists counts the calls of List.
	lists int
}

// set is what the runtime has from now on.
func (f *fakeLister) set(pods ...*observed.Pod) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.pods, f.err = pods, nil
}

func (f *fakeLister) fail(err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.err = err
}

func (f *fakeLister) List(ctx context.Context) ([]*observed.Pod, error) {
	f.mu.Lock()
	f.lists++
	var out []*observed.Pod
	for _, p := range f.pods {
		out = append(out, f.read(p))
	}
	err, hold := f.err, f.hold
	f.mu.Unlock()
	if hold != nil {
		select {
		case <-hold:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
	return out, err
}

func (f *fakeLister) Status(_ context.Context, uid types.UID) (*observed.Pod, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, p := range f.pods {
		if p.UID == uid {
			return f.read(p), f.err
		}
	}
	return f.read(&observed.Pod{UID: uid}), f.err
}

func (f *fakeLister) read(p *observed.Pod) *observed.Pod {
	out := *p
	out.ReadAt = f.clock.Now()
	return &out
}

type harness struct {
	*PLEG
	t      *testing.T
	lister *fakeLister
	clock  *testingclock.FakeClock
	log    *bytes.Buffer
}

// run runs a test in a bubble in which a PLEG runs, once it has relisted for the first time.
func run(t *testing.T, pods []*observed.Pod, test func(h *harness)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		clock := testingclock.NewFakeClock(time.Unix(1000, 0))
		h := &harness{t: t, lister: &fakeLister{clock: clock, pods: pods}, clock: clock, log: &bytes.Buffer{}}
		h.PLEG = New(Config{Runtime: h.lister, Clock: clock, Logger: slog.New(slog.NewTextHandler(h.log, nil))})
		ctx, cancel := context.WithCancel(t.Context())
		var group sync.WaitGroup
		group.Go(func() { h.Run(ctx) })
		defer group.Wait()
		defer cancel()
		synctest.Wait()
		test(h)
	})
}

// relist lets the time to the next relist pass, and waits until that is done or stuck.
func (h *harness) relist() {
	h.clock.Step(time.Second)
	synctest.Wait()
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
