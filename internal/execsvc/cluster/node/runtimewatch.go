package node

import (
	"context"
	"errors"
	"time"

	"github.com/podstream/podstream/internal/execsvc/decide/nodestatus"
)

// The runtime is asked every askPeriod; every eagerPeriod while a node that starts isn't ready, for at most eagerFor.
const askPeriod, eagerPeriod, eagerFor = 5 * time.Second, 200 * time.Millisecond, 2 * time.Minute

// WatchConfig configures a RuntimeWatch.
type WatchConfig struct {
	// Runtime is the status to watch.
	Runtime *RuntimeStatus
	// PLEG returns the error that the PLEG is unhealthy with; it must tolerate single failures. Nil: it is always healthy.
	PLEG func() error
	// Changed is called when the runtime becomes able or unable to run pods, or unable for another reason; when it has other handlers
	// or features; and when it answers again. Nil: no call is made.
	Changed func()
}

// RuntimeWatch watches a RuntimeStatus, and adds the health of the PLEG to it.
type RuntimeWatch struct{ cfg WatchConfig }

// NewRuntimeWatch returns a RuntimeWatch that isn't running.
func NewRuntimeWatch(cfg WatchConfig) *RuntimeWatch {
	if cfg.PLEG == nil {
		cfg.PLEG = func() error { return nil }
	}
	if cfg.Changed == nil {
		cfg.Changed = func() {}
	}
	return &RuntimeWatch{cfg: cfg}
}

// State returns the last answer, and the health of the PLEG. It doesn't ask the runtime.
func (w *RuntimeWatch) State() nodestatus.Runtime {
	state := w.cfg.Runtime.Last()
	state.PLEG = w.cfg.PLEG()
	return state
}

// Run asks the runtime until ctx ends.
func (w *RuntimeWatch) Run(ctx context.Context) {
	began, last, ready := time.Now(), "nothing is known", false
	reported := 0
	for ctx.Err() == nil {
		w.cfg.Runtime.Ask(ctx)
		now, state, changes := time.Now(), w.State(), w.cfg.Runtime.changed()
		if text := errorsText(state.Errors(now)); (text != last || changes != reported) && ctx.Err() == nil {
			last, ready, reported = text, ready || text == "", changes
			w.cfg.Changed()
		}
		period := askPeriod
		if !ready && now.Sub(began) < eagerFor {
			period = eagerPeriod
		}
		pause(ctx, period, nil)
	}
}

func errorsText(errs []error) string {
	if err := errors.Join(errs...); err != nil {
		return err.Error()
	}
	return ""
}
