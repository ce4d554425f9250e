package worker

import (
	"bytes"
	"context"
	"log/slog"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	testingclock "k8s.io/utils/clock/testing"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// harness is Workers with a fakeSyncer, a fake clock, and a log.
type harness struct {
	*Workers
	t     *testing.T
	fake  *fakeSyncer
	clock *testingclock.FakeClock
	log   *bytes.Buffer

	mu sync.Mutex
	// reported are the workers' statuses at the calls of Changed.
	reported []Status
}

// run runs a test in a synctest bubble, which can wait for the workers.
func run(t *testing.T, test func(h *harness)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		h := &harness{t: t, clock: testingclock.NewFakeClock(time.Unix(1000, 0)), log: &bytes.Buffer{}}
		h.fake = &fakeSyncer{clock: h.clock, plan: map[string]func(context.Context) (Result, error){}}
		h.Workers = New(Config{Syncer: h.fake, Changed: h.changed, Clock: h.clock, Logger: slog.New(slog.NewTextHandler(h.log, nil))})
		defer h.Stop()
		test(h)
	})
}

// changed is Config.Changed: it records the status.
func (h *harness) changed(uid types.UID) {
	h.mu.Lock()
	defer h.mu.Unlock()
	s, _ := h.Get(uid)
	h.reported = append(h.reported, s)
}

// sleep lets the bubble's time pass. Timers of contexts follow it; those of the workers follow the clock.
func (h *harness) sleep(d time.Duration) {
	h.t.Helper()
	time.Sleep(d)
	synctest.Wait()
}

// want waits until every worker is blocked, and checks the calls since the last time, in this order.
func (h *harness) want(calls ...string) {
	h.t.Helper()
	synctest.Wait()
	h.fake.mu.Lock()
	defer h.fake.mu.Unlock()
	if !slices.Equal(h.fake.calls, calls) {
		h.t.Fatalf("calls %q; want %q", h.fake.calls, calls)
	}
	h.fake.calls = nil
}

// wantLoosely is want where only the first n calls have an order. The calls after them are of several workers, and
// must be given sorted.
func (h *harness) wantLoosely(first int, calls ...string) {
	h.t.Helper()
	synctest.Wait()
	h.fake.mu.Lock()
	if len(h.fake.calls) > first {
		slices.Sort(h.fake.calls[first:])
	}
	h.fake.mu.Unlock()
	h.want(calls...)
}

func (h *harness) wantNothingLogged() {
	h.t.Helper()
	synctest.Wait()
	if h.log.Len() > 0 {
		h.t.Errorf("logged %q; want nothing", h.log)
	}
}

// plan sets the function that the calls of that text run from now on.
func (h *harness) plan(call string, do func(context.Context) (Result, error)) {
	h.fake.mu.Lock()
	defer h.fake.mu.Unlock()
	h.fake.plan[call] = do
}

// fail makes the calls of that text fail; with nil they succeed again.
func (h *harness) fail(call string, err error) {
	h.plan(call, func(context.Context) (Result, error) { return Result{}, err })
}

// block makes the calls of that text wait until the returned function is called, or their context ends.
func (h *harness) block(call string) (release func()) {
	gate := make(chan struct{})
	h.plan(call, func(ctx context.Context) (Result, error) {
		select {
		case <-gate:
			return Result{}, nil
		case <-ctx.Done():
			return Result{}, ctx.Err()
		}
	})
	return sync.OnceFunc(func() { close(gate) })
}

// wantPause checks that the next calls come after exactly that time.
func (h *harness) wantPause(pause time.Duration, calls ...string) {
	h.t.Helper()
	h.clock.Step(pause - time.Nanosecond)
	h.want()
	h.clock.Step(time.Nanosecond)
	h.want(calls...)
}

// wantState checks the state that Get returns.
func (h *harness) wantState(uid string, want State) {
	h.t.Helper()
	synctest.Wait()
	got, ok := h.Get(newPod(uid, "").UID)
	if !ok || got.State != want || string(got.UID()) != uid {
		h.t.Fatalf("pod %s: %v, %v; want %v", uid, got.State, ok, want)
	}
}

func (h *harness) wantGone(uid string) {
	h.t.Helper()
	synctest.Wait()
	if got, ok := h.Get(newPod(uid, "").UID); ok {
		h.t.Fatalf("pod %s is %v; want it gone", uid, got.State)
	}
}

func version(pod *v1.Pod, v string) *v1.Pod {
	pod.Labels = map[string]string{"version": v}
	return pod
}
