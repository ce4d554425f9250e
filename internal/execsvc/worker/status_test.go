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

// wantTold checks the states that were told since the last time; 0 is a worker that is gone.
func (h *harness) wantTold(states ...State) {
	h.t.Helper()
	synctest.Wait()
	h.mu.Lock()
	defer h.mu.Unlock()
	var got []State
	for _, s := range h.told {
		got = append(got, s.State)
	}
	if !slices.Equal(got, states) {
		h.t.Fatalf("told of %v; want %v", got, states)
	}
	h.told = nil
}

// lastTold is what was told last of a pod that was there.
func (h *harness) lastTold(uid types.UID) Status {
	h.t.Helper()
	synctest.Wait()
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, s := range slices.Backward(h.told) {
		if s.Pod != nil && s.UID() == uid {
			return s
		}
	}
	h.t.Fatalf("nobody was told of %s", uid)
	return Status{}
}

func TestChangesAreTold(t *testing.T) {
	run(t, func(h *harness) {
		release := h.block("sync a")
		pod := newPod("a", "web")
		h.Update(pod)
		h.want("sync a")
		// Whether it was told of before it began, too, is a matter of chance.
		if last := h.lastTold("a"); last.State != Syncing {
			t.Errorf("told last that it is %v", last.State)
		}
		h.told = nil
		release()
		h.wantTold()

		h.Sync("a")
		h.want("sync a")
		h.wantTold()
		h.fail("sync a", errors.New("no"))
		h.Sync("a")
		h.wantTold(Syncing)
		h.Update(pod)
		h.wantTold()
		h.clock.Step(5 * time.Second)
		h.Sync("a")
		h.wantTold(Syncing)
		h.fail("sync a", nil)
		h.Update(pod)
		h.wantTold(Syncing)

		h.block("terminate a 30")
		terminated, cleaned := h.block("terminate a 5"), h.block("clean up a")
		h.Remove(newPod("a", "web"), 30)
		h.wantTold(Terminating)
		h.Remove(newPod("a", "web"), 40)
		h.wantTold()
		h.Remove(newPod("a", "web"), 5)
		h.wantTold(Terminating)
		terminated()
		h.wantTold(Terminated)
		cleaned()
		h.wantTold(Finished, 0)
	})
}

// Some errors can't be compared, and a worker must survive them.
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
		{name: "nothing, but there is something to see", result: Result{WakeAfter: time.Second}},
		{name: "backoff", result: Result{RetryAfter: 40 * time.Second}, want: waitsForBackoff, retry: 40 * time.Second},
		{name: "failure", err: errors.New("no"), want: waitsForRetry, retry: 10 * time.Second},
		{name: "network", err: ErrNetworkNotReady, want: waitsForNetwork, retry: time.Second},
		{name: "refused", result: Result{Refused: true}, want: waitsForOffer, retry: 10 * time.Second},
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
				// A pod that is being ended waits for none of this.
				h.block("terminate a 30")
				h.Remove(newPod("a", "web"), 30)
				h.want("terminate a 30")
				check("", 0)
			})
		})
	}
}

// What a pod waited for is over when it has gone on.
func TestWaitsNoMore(t *testing.T) {
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

// The end of a backoff that is worked out anew is the same one, though it may come out a little otherwise.
func TestSameBackoffIsToldOnce(t *testing.T) {
	run(t, func(h *harness) {
		left := time.Minute
		h.plan("sync a", func(context.Context) (Result, error) { return Result{RetryAfter: left}, nil })
		h.Update(newPod("a", "web"))
		h.want("sync a")
		h.told = nil
		left -= 3 * time.Millisecond
		h.Sync("a")
		h.want("sync a")
		h.wantTold()
		left = 2 * time.Minute
		h.Sync("a")
		h.want("sync a")
		h.wantTold(Syncing)
	})
}

// Who waits for a name is told who has it, also when that is another one.
func TestWaitsForTheName(t *testing.T) {
	run(t, func(h *harness) {
		for _, uid := range []string{"a", "b", "c"} {
			h.Update(newPod(uid, "web"))
		}
		h.want("sync a")
		waits := func(uid types.UID, want string) {
			t.Helper()
			if got := h.lastTold(uid).WaitsFor; got != want {
				t.Errorf("told last that %s waits for %q; want %q", uid, got, want)
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
