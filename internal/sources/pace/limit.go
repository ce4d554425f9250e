package pace

import (
	"context"
	"sync"
	"time"

	"k8s.io/utils/clock"
)

// Limit returns a context that ends with the cause context.DeadlineExceeded after the timeout, by the clock, and when
// end is called. end returns when the goroutine of Limit has ended.
func Limit(ctx context.Context, clk clock.Clock, timeout time.Duration) (limited context.Context, end func()) {
	ctx, cancel := context.WithCancelCause(ctx)
	timer := clk.NewTimer(timeout)
	var waiting sync.WaitGroup
	waiting.Go(func() {
		defer timer.Stop()
		select {
		case <-timer.C():
			cancel(context.DeadlineExceeded)
		case <-ctx.Done():
		}
	})
	return ctx, func() {
		cancel(nil)
		waiting.Wait()
	}
}
