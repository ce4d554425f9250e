package retry

import (
	"context"
	"time"

	"k8s.io/utils/clock"
)

// Run calls attempt until it returns nil, and then returns nil. After each error it calls failed, waits for the pause
// that failed returns, and calls attempt again. If failed returns an error, Run returns that error without a pause.
//
// If ctx ends before an attempt has failed, or during a pause, Run returns the error of ctx: failed isn't called, as a
// cancelled attempt says nothing about what was attempted.
func Run(
	ctx context.Context, c clock.Clock, attempt func(context.Context) error, failed func(error) (pause time.Duration, final error),
) error {
	for {
		err := attempt(ctx)
		switch {
		case err == nil:
			return nil
		case ctx.Err() != nil:
			return ctx.Err()
		}
		pause, err := failed(err)
		if err != nil {
			return err
		}
		if err := sleep(ctx, c, pause); err != nil {
			return err
		}
	}
}

// sleep waits for d. It returns the error of ctx if ctx ends before.
func sleep(ctx context.Context, c clock.Clock, d time.Duration) error {
	timer := c.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C():
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
