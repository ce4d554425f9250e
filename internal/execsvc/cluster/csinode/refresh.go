package csinode

import (
	"context"
	"time"
)

// leastPeriod is the least period that the API server allows.
const leastPeriod = 10 * time.Second

// refreshing is the goroutine that has a driver asked again.
type refreshing struct {
	period time.Duration
	cancel context.CancelFunc
	// now has an element if the driver must be asked at once.
	now chan struct{}
}

// refresh starts and ends the goroutines for the registered drivers. One whose call hangs delays no other driver.
func (k *Keeper) refresh(ctx context.Context, registered []Driver) {
	wanted := map[string]time.Duration{}
	for _, d := range registered {
		if period := k.cfg.Period(d.Name); period > 0 {
			wanted[d.Name] = max(period, leastPeriod)
		}
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	for name, r := range k.periods {
		if wanted[name] != r.period {
			r.cancel()
			delete(k.periods, name)
		}
	}
	for name, period := range wanted {
		if k.periods[name] != nil {
			continue
		}
		ctx, cancel := context.WithCancel(ctx)
		now := make(chan struct{}, 1)
		k.periods[name] = &refreshing{period, cancel, now}
		k.group.Go(func() {
			defer cancel()
			k.refreshOne(ctx, name, period, now)
		})
	}
}

// RefreshNow has the driver asked again now, if it is asked periodically: how many volumes the node can have has turned out wrong.
func (k *Keeper) RefreshNow(driver string) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if r := k.periods[driver]; r != nil {
		select {
		case r.now <- struct{}{}:
		default:
		}
	}
}

// refreshOne has one driver asked again until ctx ends.
func (k *Keeper) refreshOne(ctx context.Context, name string, period time.Duration, now <-chan struct{}) {
	failing := false
	for {
		// Drivers of many nodes may ask the same service.
		pause(ctx, period+jittered(period/10)-period/10, now)
		if ctx.Err() != nil {
			return
		}
		err := k.cfg.Refresh(ctx, name)
		switch {
		case ctx.Err() != nil:
			return
		case err != nil && !failing:
			k.log.Warn("a CSI driver can't be asked how many volumes the node can have; its last answer stays", "driver", name, "error", err)
		case err == nil && failing:
			k.log.Info("a CSI driver can be asked again how many volumes the node can have", "driver", name)
		}
		failing = err != nil
	}
}
