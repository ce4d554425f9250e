package report

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/utils/clock"

	"github.com/podstream/podstream/client"
	"github.com/podstream/podstream/internal/failpoint"
	podconfigv1 "github.com/podstream/podstream/proto/podconfig/v1"
)

// timeout is how long podconfigd may take for one report.
const timeout = 10 * time.Second

// Config configures a Reporter.
type Config struct {
	// Report sends one report: client.Client.ReportApplied.
	Report func(context.Context, *podconfigv1.Cursor, []client.PodError) error
	// Clock is for the pauses after a failure. Nil means the real one.
	Clock clock.Clock
	// Logger gets one line when reports begin to fail, and one when they succeed again. Nil discards.
	Logger *slog.Logger
}

// Reporter makes reports. It is safe for concurrent use, except for Run.
type Reporter struct {
	cfg  Config
	wake chan struct{}

	mu     sync.Mutex
	cursor *podconfigv1.Cursor
}

// New returns a Reporter that does not run yet.
func New(cfg Config) *Reporter {
	if cfg.Clock == nil {
		cfg.Clock = clock.RealClock{}
	}
	if cfg.Logger == nil {
		cfg.Logger = slog.New(slog.DiscardHandler)
	}
	return &Reporter{cfg: cfg, wake: make(chan struct{}, 1)}
}

// Committed reports that everything up to the cursor is applied and on disk. A repeated cursor is reported too,
// because podconfigd may have been restarted.
func (r *Reporter) Committed(cursor *podconfigv1.Cursor) {
	r.mu.Lock()
	r.cursor = cursor
	r.mu.Unlock()
	r.Changed()
}

// Changed reports that the rejected pods have changed. Before the first cursor there are no reports.
func (r *Reporter) Changed() {
	select {
	case r.wake <- struct{}{}:
	default:
	}
}

// Run reports until ctx ends. It calls refused, from this goroutine, for the pods that are refused at the time of a
// report.
func (r *Reporter) Run(ctx context.Context, refused func() []client.PodError) {
	var retry <-chan time.Time
	pauses := newPauses()
	for {
		wake := r.wake
		if retry != nil {
			// After a failure only the retry sends the next report.
			wake = nil
		}
		select {
		case <-ctx.Done():
			return
		case <-wake:
		case <-retry:
			// The retry has the changes too.
			select {
			case <-r.wake:
			default:
			}
		}
		err := r.report(ctx, refused)
		switch {
		case ctx.Err() != nil:
			return
		case err != nil:
			if retry == nil {
				r.cfg.Logger.Warn("reports to podconfigd fail; it shows the last report until a retry succeeds", "error", err)
			}
			retry = r.cfg.Clock.After(pauses.Step())
		default:
			if retry != nil {
				r.cfg.Logger.Info("reports to podconfigd succeed again")
			}
			retry, pauses = nil, newPauses()
		}
	}
}

// newPauses returns the pauses between attempts.
func newPauses() *wait.Backoff {
	return &wait.Backoff{Duration: 500 * time.Millisecond, Factor: 2, Jitter: 0.5, Steps: 10, Cap: 30 * time.Second}
}

func (r *Reporter) report(ctx context.Context, refused func() []client.PodError) error {
	r.mu.Lock()
	cursor := r.cursor
	r.mu.Unlock()
	if cursor == nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	failpoint.Reached(failpoint.BeforeReport)
	defer failpoint.Reached(failpoint.AfterReport)
	return r.cfg.Report(ctx, cursor, refused())
}
