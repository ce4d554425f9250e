package worker

import (
	"context"
	"errors"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/apimachinery/pkg/types"
	utilerrors "k8s.io/apimachinery/pkg/util/errors"
)

// wantReported checks the states that were reported since the last time; 0 is a worker that has ended.
func (h *harness) wantReported(states ...State) {
	h.t.Helper()
	synctest.Wait()
	h.mu.Lock()
	defer h.mu.Unlock()
	var got []State
	for _, s := range h.reported {
		got = append(got, s.State)
	}
	if !slices.Equal(got, states) {
		h.t.Fatalf("reported %v; want %v", got, states)
	}
	h.reported = nil
}

// lastReported returns the last reported status of a pod.
func (h *harness) lastReported(uid types.UID) Status {
	h.t.Helper()
	synctest.Wait()
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, s := range slices.Backward(h.reported) {
		if s.Pod != nil && s.UID() == uid {
			return s
		}
	}
	h.t.Fatalf("nothing was reported of %s", uid)
	return Status{}
}

func TestChangesAreReported(t *testing.T) {
	run(t, func(h *harness) {
		release := h.block("sync a")
		pod := newPod("a", "web")
		h.Update(pod)
		h.want("sync a")
		// Whether its first state was reported too depends on the scheduler.
		if last := h.lastReported("a"); last.State != Syncing {
			t.Errorf("reported last: %v", last.State)
		}
		h.reported = nil
		release()
		h.wantReported()

		h.Sync("a")
		h.want("sync a")
		h.wantReported()
		h.fail("sync a", errors.New("no"))
		h.Sync("a")
		h.wantReported(Syncing)
		h.Update(pod)
		h.wantReported()
		h.clock.Step(5 * time.Second)
		h.Sync("a")
		h.wantReported(Syncing)
		h.fail("sync a", nil)
		h.Update(pod)
		h.wantReported(Syncing)

		h.block("terminate a 30")
		terminated, cleaned := h.block("terminate a 5"), h.block("clean up a")
		h.Remove(newPod("a", "web"), 30)
		h.wantReported(Terminating)
		h.Remove(newPod("a", "web"), 40)
		h.wantReported()
		h.Remove(newPod("a", "web"), 5)
		h.wantReported(Terminating)
		terminated()
		h.wantReported(Terminated)
		cleaned()
		h.wantReported(Finished, 0)
	})
}

// Errors of some types can't be compared with ==; the worker must not panic.
func TestErrorsThatCannotBeCompared(t *testing.T) {
	run(t, func(h *harness) {
		h.plan("sync a", func(context.Context) (Result, error) {
			return Result{}, utilerrors.NewAggregate([]error{errors.New("one"), errors.New("two")})
		})
		h.Update(newPod("a", "web"))
		h.want("sync a")
		h.wantPause(10*time.Second, "sync a")
	})
}

func TestWaitsFor(t *testing.T) {
	tests := []struct {
		name   string
		result Result
		err    error
		want   string
		retry  time.Duration
	}{
		{name: "nothing"},
		{name: "nothing, but a wake time", result: Result{WakeAfter: time.Second}},
		{name: "backoff", result: Result{RetryAfter: 40 * time.Second}, want: waitsForBackoff, retry: 40 * time.Second},
		{name: "failure", err: errors.New("no"), want: waitsForRetry, retry: 10 * time.Second},
		{name: "network", err: ErrNetworkNotReady, want: waitsForNetwork, retry: time.Second},
		{name: "rejected", result: Result{Rejected: true}, want: waitsForAdmission, retry: 10 * time.Second},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			run(t, func(h *harness) {
				check := func(want string, retry time.Duration) {
					t.Helper()
					got, _ := h.Get("a")
					var at time.Time
					if retry > 0 {
						at = h.clock.Now().Add(retry)
					}
					if got.WaitsFor != want || !got.Retry.Equal(at) {
						t.Errorf("waits for %q until %v; want %q, %v", got.WaitsFor, got.Retry, want, at)
					}
				}
				h.plan("sync a", func(context.Context) (Result, error) { return tt.result, tt.err })
				h.Update(newPod("a", "web"))
				h.want("sync a")
				check(tt.want, tt.retry)
				// A terminating pod waits for none of these.
				h.block("terminate a 30")
				h.Remove(newPod("a", "web"), 30)
				h.want("terminate a 30")
				check("", 0)
			})
		})
	}
}

// WaitsFor is cleared when the state changes.
func TestWaitsForIsCleared(t *testing.T) {
	for name, next := range map[string]Result{"it went well": {}, "it ran to its end": {Terminal: true}} {
		t.Run(name, func(t *testing.T) {
			run(t, func(h *harness) {
				h.block("terminate a 30")
				h.plan("sync a", func(context.Context) (Result, error) { return Result{RetryAfter: time.Minute}, nil })
				h.Update(newPod("a", "web"))
				h.want("sync a")
				h.plan("sync a", func(context.Context) (Result, error) { return next, nil })
				h.Sync("a")
				synctest.Wait()
				if got, _ := h.Get("a"); got.WaitsFor != "" || !got.Retry.IsZero() {
					t.Errorf("waits for %q until %v", got.WaitsFor, got.Retry)
				}
			})
		})
	}
}

// The end of a backoff may differ by less than a second at each step. That is not reported as a change.
func TestSameBackoffIsReportedOnce(t *testing.T) {
	run(t, func(h *harness) {
		left := time.Minute
		h.plan("sync a", func(context.Context) (Result, error) { return Result{RetryAfter: left}, nil })
		h.Update(newPod("a", "web"))
		h.want("sync a")
		h.reported = nil
		left -= 3 * time.Millisecond
		h.Sync("a")
		h.want("sync a")
		h.wantReported()
		left = 2 * time.Minute
		h.Sync("a")
		h.want("sync a")
		h.wantReported(Syncing)
	})
}

// WaitsFor names the pod that holds the name, also after another pod has got it.
func TestWaitsForTheName(t *testing.T) {
	run(t, func(h *harness) {
		for _, uid := range []string{"a", "b", "c"} {
			h.Update(newPod(uid, "web"))
		}
		h.want("sync a")
		waits := func(uid types.UID, want string) {
			t.Helper()
			if got := h.lastReported(uid).WaitsFor; got != want {
				t.Errorf("reported last that %s waits for %q; want %q", uid, got, want)
			}
		}
		waits("a", "")
		waits("b", "pod a of the same name to end")
		waits("c", "pod a of the same name to end")
		h.Remove(newPod("a", "web"), 30)
		waits("b", "")
		waits("c", "pod b of the same name to end")
	})
}
