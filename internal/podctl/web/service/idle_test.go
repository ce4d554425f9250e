package service_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/utils/clock"

	"github.com/podstream/podstream/internal/podctl/web/service"
)

// TestIdle: the time begins again with each use, and ends with the context.
func TestIdle(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		i := service.NewIdle(clock.RealClock{}, time.Minute)
		began := time.Now()
		go func() {
			for range 3 {
				time.Sleep(50 * time.Second)
				i.Touch()
			}
		}()
		if !i.Wait(t.Context()) || time.Since(began) != 150*time.Second+time.Minute {
			t.Errorf("it is over after %v", time.Since(began))
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
		defer cancel()
		if forever := service.NewIdle(clock.RealClock{}, 0); forever.Wait(ctx) || !errors.Is(ctx.Err(), context.DeadlineExceeded) || !forever.Ends().IsZero() {
			t.Error("an idle time without a limit is over")
		}
	})
}
