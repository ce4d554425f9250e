package retry

import (
	"context"
	"errors"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"
	"k8s.io/utils/clock"
	clocktesting "k8s.io/utils/clock/testing"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var errBroken = errors.New("broken")

// TestRunUntilSuccess: each failure is followed by the pause for it, and a success by nothing.
func TestRunUntilSuccess(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		begin := time.Now()
		var attempts []time.Duration
		var failures []error
		results := []error{errBroken, context.DeadlineExceeded, errBroken, nil}
		pauses := []time.Duration{time.Second, 0, time.Minute}
		err := Run(t.Context(), clock.RealClock{}, func(context.Context) error {
			attempts = append(attempts, time.Since(begin))
			return results[len(attempts)-1]
		}, func(err error) (time.Duration, error) {
			failures = append(failures, err)
			return pauses[len(failures)-1], nil
		})
		if err != nil {
			t.Errorf("Run returns %v; want nil", err)
		}
		if want := []time.Duration{0, time.Second, time.Second, time.Second + time.Minute}; !slices.Equal(attempts, want) {
			t.Errorf("attempts after %v; want %v", attempts, want)
		}
		if !slices.Equal(failures, results[:3]) {
			t.Errorf("the failures are %v; want %v", failures, results[:3])
		}
		if now := time.Since(begin); now != time.Second+time.Minute {
			t.Errorf("Run returns after %v; want no pause after the success", now)
		}
	})
}

// TestFinalError: an error of failed is returned at once.
func TestFinalError(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		begin, final := time.Now(), errors.New("final")
		attempts := 0
		err := Run(t.Context(), clock.RealClock{}, func(context.Context) error {
			attempts++
			return errBroken
		}, func(error) (time.Duration, error) { return time.Hour, final })
		if !errors.Is(err, final) || attempts != 1 || time.Since(begin) != 0 {
			t.Errorf("Run returns %v after %d attempts and %v; want the final error after one, at once", err, attempts, time.Since(begin))
		}
	})
}

// TestContextEndsAttempt: after an attempt that the context ended, failed isn't called. A success counts all the same.
func TestContextEndsAttempt(t *testing.T) {
	for _, result := range []error{errBroken, nil} {
		ctx, cancel := context.WithCancel(t.Context())
		err := Run(ctx, clock.RealClock{}, func(context.Context) error {
			cancel()
			return result
		}, func(error) (time.Duration, error) {
			t.Error("failed is called")
			return 0, errBroken
		})
		want := ctx.Err()
		if result == nil {
			want = nil
		}
		if !errors.Is(err, want) {
			t.Errorf("after an attempt with the result %v Run returns %v; want %v", result, err, want)
		}
	}
}

// TestContextEndsPause: the end of the context ends a pause, and its timer.
func TestContextEndsPause(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := clocktesting.NewFakeClock(time.Now())
		ctx, cancel := context.WithCancel(t.Context())
		attempts, ended := 0, make(chan error, 1)
		go func() {
			ended <- Run(ctx, c, func(context.Context) error {
				attempts++
				return errBroken
			}, func(error) (time.Duration, error) { return time.Minute, nil })
		}()
		synctest.Wait()
		c.Step(time.Minute - 1)
		synctest.Wait()
		if attempts != 1 || c.Waiters() != 1 {
			t.Errorf("%d attempts and %d timers before the end of the pause; want 1 and 1", attempts, c.Waiters())
		}
		c.Step(1)
		synctest.Wait()
		if attempts != 2 || c.Waiters() != 1 {
			t.Errorf("%d attempts and %d timers after the first pause; want 2 and 1", attempts, c.Waiters())
		}
		cancel()
		if err := <-ended; !errors.Is(err, context.Canceled) {
			t.Errorf("Run returns %v; want the error of its context", err)
		}
		if attempts != 2 || c.HasWaiters() {
			t.Errorf("%d attempts and %d timers at the end; want 2 and none", attempts, c.Waiters())
		}
	})
}
