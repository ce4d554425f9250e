package worker

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"
)

func TestRetries(t *testing.T) {
	failure := errors.New("disk on fire")
	tests := []struct {
		name   string
		result Result
		err    error
		pause  time.Duration
	}{
		{"after an error", Result{}, failure, 10 * time.Second},
		{"when the backoff ends", Result{RetryAfter: 40 * time.Second}, nil, 40 * time.Second},
		{"when the backoff ends, soon", Result{RetryAfter: time.Second}, nil, time.Second},
		{"error and a short backoff", Result{RetryAfter: 3 * time.Second}, failure, 3 * time.Second},
		{"error and a long backoff", Result{RetryAfter: 300 * time.Second}, failure, 10 * time.Second},
		{"again, but an error", Result{Again: true}, failure, 10 * time.Second},
		{"without network", Result{}, fmt.Errorf("sync: %w", ErrNetworkNotReady), time.Second},
		{"without network, and a backoff", Result{RetryAfter: 3 * time.Second}, ErrNetworkNotReady, time.Second},
		{"without network, and a shorter backoff", Result{RetryAfter: 100 * time.Millisecond}, ErrNetworkNotReady, 100 * time.Millisecond},
		{"wake after", Result{WakeAfter: 7 * time.Second}, nil, 7 * time.Second},
		{"wake before the backoff ends", Result{WakeAfter: 7 * time.Second, RetryAfter: 20 * time.Second}, nil, 7 * time.Second},
		{"the backoff ends before the wake", Result{WakeAfter: 30 * time.Second, RetryAfter: 20 * time.Second}, nil, 20 * time.Second},
		{"wake soon after an error", Result{WakeAfter: 2 * time.Second}, failure, 2 * time.Second},
		{"error, and a later wake", Result{WakeAfter: time.Hour}, failure, 10 * time.Second},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			run(t, func(h *harness) {
				h.plan("sync a", func(context.Context) (Result, error) { return tt.result, tt.err })
				h.Update(newPod("a", "web"))
				h.want("sync a")
				h.wantPause(tt.pause, "sync a")
				h.wantPause(tt.pause, "sync a")
				if got, _ := h.Get("a"); !errors.Is(got.Err, tt.err) {
					t.Errorf("Err is %v; want %v", got.Err, tt.err)
				}
			})
		})
	}
}

func TestEveryStepIsRetried(t *testing.T) {
	run(t, func(h *harness) {
		for _, call := range []string{"terminate a 30", "terminate a 20", "clean up a", "purge a"} {
			h.fail(call, errors.New("no"))
		}
		h.Update(newPod("a", "web"))
		h.want("sync a")
		h.Remove(newPod("a", "web"), 30)
		h.want("terminate a 30")
		h.wantPause(10*time.Second, "terminate a 20")
		h.wantPause(10*time.Second, "terminate a 10", "clean up a")
		h.wantPause(10*time.Second, "clean up a")
		h.fail("clean up a", nil)
		h.wantPause(10*time.Second, "clean up a", "purge a")
		h.fail("purge a", nil)
		h.wantPause(10*time.Second, "purge a")
		h.wantGone("a")
	})
}

func TestAgainSyncsAtOnce(t *testing.T) {
	run(t, func(h *harness) {
		left := 3
		h.plan("sync a", func(context.Context) (Result, error) {
			left--
			return Result{Again: left > 0}, nil
		})
		h.Update(newPod("a", "web"))
		h.want("sync a", "sync a", "sync a")
	})
}

func TestResync(t *testing.T) {
	run(t, func(h *harness) {
		h.Update(newPod("a", "web"))
		h.want("sync a")
		h.clock.Step(time.Minute - time.Nanosecond)
		h.want()
		// Each pause is up to 50 % longer, so that pods don't resync together.
		h.clock.Step(30*time.Second + time.Nanosecond)
		h.want("sync a")
	})
}

// A later WakeAfter doesn't delay the resync.
func TestWakeAfterResync(t *testing.T) {
	run(t, func(h *harness) {
		h.plan("sync a", func(context.Context) (Result, error) { return Result{WakeAfter: time.Hour}, nil })
		h.Update(newPod("a", "web"))
		h.want("sync a")
		h.clock.Step(90 * time.Second)
		h.want("sync a")
	})
}

// A pod in backoff is synced at each resync. Its status shows the end of the backoff.
func TestResyncInBackoff(t *testing.T) {
	run(t, func(h *harness) {
		h.plan("sync a", func(context.Context) (Result, error) { return Result{RetryAfter: time.Hour}, nil })
		h.Update(newPod("a", "web"))
		h.want("sync a")
		end := h.clock.Now().Add(time.Hour)
		if got, _ := h.Get("a"); !got.Retry.Equal(end) || got.WaitsFor != waitsForBackoff {
			t.Errorf("the worker waits for %s until %v; want its backoff, until %v", got.WaitsFor, got.Retry, end)
		}
		h.clock.Step(90 * time.Second)
		h.want("sync a")
	})
}

// A sync that hangs is canceled with an error after SyncTimeout and the pod's grace period.
func TestHungSyncIsCanceled(t *testing.T) {
	run(t, func(h *harness) {
		h.block("sync a")
		h.Update(newPod("a", "web"))
		h.want("sync a")
		h.sleep(10*time.Minute + 30*time.Second - time.Nanosecond)
		if got, _ := h.Get("a"); got.Err != nil {
			t.Fatalf("error %v before the time is over", got.Err)
		}
		h.sleep(time.Nanosecond)
		h.want()
		got, _ := h.Get("a")
		if !errors.Is(got.Err, context.DeadlineExceeded) || !strings.Contains(got.Err.Error(), "longer than 10m30s") {
			t.Errorf("error %v", got.Err)
		}
		h.wantPause(10*time.Second, "sync a")
	})
}

// An error of SyncPod is not mistaken for the timeout.
func TestDeadlineErrorOfSyncPod(t *testing.T) {
	run(t, func(h *harness) {
		h.fail("sync a", context.DeadlineExceeded)
		h.Update(newPod("a", "web"))
		h.want("sync a")
		if got, _ := h.Get("a"); got.Err != context.DeadlineExceeded { //nolint:errorlint // It must be this very one.
			t.Errorf("error %v", got.Err)
		}
	})
}

func TestSyncWakes(t *testing.T) {
	run(t, func(h *harness) {
		h.Sync("unknown")
		h.Update(newPod("a", "web"))
		h.want("sync a")
		h.Sync("a")
		h.want("sync a")
		h.Sync("a")
		h.want("sync a")
	})
}

// A step may have changed the pod before it failed. The runtime's events about that must not start the next attempt at
// once. An update of the pod does.
func TestSyncAfterFailureWaitsASecond(t *testing.T) {
	run(t, func(h *harness) {
		h.plan("sync a", func(context.Context) (Result, error) {
			h.Sync("a")
			return Result{}, errors.New("no")
		})
		h.Update(newPod("a", "web"))
		h.want("sync a")
		h.wantPause(time.Second, "sync a")
		h.clock.Step(600 * time.Millisecond)
		h.Sync("a")
		h.want()
		h.wantPause(400*time.Millisecond, "sync a")
		h.fail("sync a", nil)
		h.Update(newPod("a", "web"))
		h.want("sync a")
		h.Sync("a")
		h.want("sync a")
	})
}

// Retry starts a step right after a failure; Sync waits for the end of the quiet pause.
func TestRetryAtOnce(t *testing.T) {
	run(t, func(h *harness) {
		h.Retry("unknown")
		h.fail("sync a", errors.New("it lacks something"))
		h.Update(newPod("a", "web"))
		h.want("sync a")
		h.Sync("a")
		h.want()
		h.Retry("a")
		h.want("sync a")
	})
}
