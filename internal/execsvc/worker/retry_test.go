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
		{"when the backoff ends", Result{RetryAfter: 160 * time.Second}, nil, 160 * time.Second},
		{"when the backoff ends, soon", Result{RetryAfter: time.Second}, nil, time.Second},
		{"error and a short backoff", Result{RetryAfter: 3 * time.Second}, failure, 3 * time.Second},
		{"error and a long backoff", Result{RetryAfter: 300 * time.Second}, failure, 10 * time.Second},
		{"again, but an error", Result{Again: true}, failure, 10 * time.Second},
		{"without network", Result{}, fmt.Errorf("sync: %w", ErrNetworkNotReady), time.Second},
		{"without network, and a backoff", Result{RetryAfter: 3 * time.Second}, ErrNetworkNotReady, time.Second},
		{"without network, and a shorter backoff", Result{RetryAfter: 100 * time.Millisecond}, ErrNetworkNotReady, 100 * time.Millisecond},
		{"when there is something to see", Result{WakeAfter: 7 * time.Second}, nil, 7 * time.Second},
		{"when there is something to see before the backoff ends", Result{WakeAfter: 7 * time.Second, RetryAfter: 20 * time.Second}, nil, 7 * time.Second},
		{"when the backoff ends before there is something to see", Result{WakeAfter: 30 * time.Second, RetryAfter: 20 * time.Second}, nil, 20 * time.Second},
		{"when there is something to see, soon after an error", Result{WakeAfter: 2 * time.Second}, failure, 2 * time.Second},
		{"after an error, when there is nothing to see soon", Result{WakeAfter: time.Hour}, failure, 10 * time.Second},
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

func TestAgainMeansAtOnce(t *testing.T) {
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
		// Each pause is up to half longer, so that pods don't march in step.
		h.clock.Step(30*time.Second + time.Nanosecond)
		h.want("sync a")
	})
}

// What is to be seen in an hour doesn't keep the pod from its resync.
func TestWakeAfterResync(t *testing.T) {
	run(t, func(h *harness) {
		h.plan("sync a", func(context.Context) (Result, error) { return Result{WakeAfter: time.Hour}, nil })
		h.Update(newPod("a", "web"))
		h.want("sync a")
		h.clock.Step(90 * time.Second)
		h.want("sync a")
	})
}

// A sync that hangs is broken off, and says so, once it has had its time and the pod's grace period, which it may have had to wait for.
func TestHungSyncIsBrokenOff(t *testing.T) {
	run(t, func(h *harness) {
		h.block("sync a")
		h.Update(newPod("a", "web"))
		h.want("sync a")
		time.Sleep(10*time.Minute + 30*time.Second - time.Nanosecond)
		if got, _ := h.Get("a"); got.Err != nil {
			t.Fatalf("error %v before the time is over", got.Err)
		}
		time.Sleep(time.Nanosecond)
		h.want()
		got, _ := h.Get("a")
		if !errors.Is(got.Err, context.DeadlineExceeded) || !strings.Contains(got.Err.Error(), "longer than 10m30s") {
			t.Errorf("error %v", got.Err)
		}
		h.wantPause(10*time.Second, "sync a")
	})
}

// A sync that fails by itself isn't blamed on its time.
func TestTimeoutIsTold(t *testing.T) {
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
		h.Sync("nobody")
		h.Update(newPod("a", "web"))
		h.want("sync a")
		h.Sync("a")
		h.want("sync a")
		h.Sync("a")
		h.want("sync a")
	})
}

// A step that fails may have done something to the pod first, of which the runtime tells. That must not make it fail again and again
// without a pause; what the pod is changed to is tried at once.
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

func TestSameErrorIsLoggedOnce(t *testing.T) {
	run(t, func(h *harness) {
		lines := func() int { return strings.Count(h.log.String(), "\n") }
		again := func(err error, want int) {
			t.Helper()
			h.fail("sync a", err)
			h.Update(newPod("a", "web"))
			h.want("sync a")
			if lines() != want {
				t.Fatalf("log %q; want %d lines", h.log, want)
			}
		}
		h.Update(newPod("a", "web"))
		h.want("sync a")
		again(errors.New("one"), 1)
		again(errors.New("one"), 1)
		again(errors.New("two"), 2)
		again(errors.New("one"), 3)
		again(nil, 4)
		again(nil, 4)
		again(errors.New("one"), 5)
		if first, _, _ := strings.Cut(h.log.String(), "\n"); !strings.Contains(first, "level=ERROR") ||
			!strings.Contains(first, "pod=default/web uid=a step=sync error=one") {
			t.Errorf("logged %q", first)
		}
	})
}

// What a step lacked may come right after it has failed: Retry doesn't wait for the quiet after a failure, as Sync does.
func TestRetryAtOnce(t *testing.T) {
	run(t, func(h *harness) {
		h.Retry("nobody")
		h.fail("sync a", errors.New("it lacks something"))
		h.Update(newPod("a", "web"))
		h.want("sync a")
		h.Sync("a")
		h.want()
		h.Retry("a")
		h.want("sync a")
	})
}

// What is over in a moment, mostly, is no error yet; if it lasts it is one, once.
func TestPassingFailureIsNoErrorYet(t *testing.T) {
	run(t, func(h *harness) {
		fails := func(passing bool, err error) {
			h.plan("sync a", func(context.Context) (Result, error) { return Result{Passing: passing}, err })
		}
		want := func(infos, errors int) {
			t.Helper()
			text := h.log.String()
			if i, e := strings.Count(text, "level=INFO"), strings.Count(text, "level=ERROR"); i != infos || e != errors {
				t.Fatalf("log %q; want %d and %d lines", text, infos, errors)
			}
			h.log.Reset()
		}
		coming, failure := errors.New("not there yet"), errors.New("disk on fire")
		fails(true, coming)
		h.Update(newPod("a", "web"))
		h.want("sync a")
		want(1, 0)
		h.Retry("a")
		h.want("sync a")
		want(0, 0)
		h.wantPause(10*time.Second, "sync a")
		want(0, 1)
		h.wantPause(10*time.Second, "sync a")
		want(0, 0)
		fails(false, failure)
		h.wantPause(10*time.Second, "sync a")
		want(0, 1)
		fails(true, coming)
		h.wantPause(10*time.Second, "sync a")
		want(1, 0)
		fails(false, nil)
		h.wantPause(10*time.Second, "sync a")
		want(1, 0)
		fails(true, coming)
		h.Update(newPod("a", "web"))
		h.want("sync a")
		want(1, 0)
	})
}
