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

// Config says who is told what.
type Config struct {
	// Report makes one report: client.Client.ReportApplied.
	Report func(context.Context, *podconfigv1.Cursor, []client.PodError) error
	// Refused returns the pods that are refused now. It is called from Run's goroutine. Nil: none ever are.
	Refused func() []client.PodError
	// Clock is for the pauses after a failure. Nil means the real one.
	Clock clock.Clock
	// Logger is told once when reports fail, and when they are taken again. Nil discards.
	Logger *slog.Logger
}

// Reporter makes reports. It is safe for concurrent use, but for Run.
type Reporter struct {
	cfg  Config
	wake chan struct{}

	mu     sync.Mutex
	cursor *podconfigv1.Cursor
}

// New returns a Reporter that isn't running.
func New(cfg Config) *Reporter {
	if cfg.Refused == nil {
		cfg.Refused = func() []client.PodError { return nil }
	}
	if cfg.Clock == nil {
		cfg.Clock = clock.RealClock{}
	}
	if cfg.Logger == nil {
		cfg.Logger = slog.New(slog.DiscardHandler)
	}
	return &Reporter{cfg: cfg, wake: make(chan struct{}, 1)}
}

// Committed notes that everything up to the cursor is applied and on disk. It is told again even if it is the one before: podconfigd
// may have been restarted.
func (r *Reporter) Committed(cursor *podconfigv1.Cursor) {
	r.mu.Lock()
	r.cursor = cursor
	r.mu.Unlock()
	r.Changed()
}

// Changed notes that other pods are refused than before. Before the first cursor there is nothing to report them with.
func (r *Reporter) Changed() {
	select {
	case r.wake <- struct{}{}:
	default:
	}
}

// Run reports until ctx ends.
func (r *Reporter) Run(ctx context.Context) {
	var retry <-chan time.Time
	pauses := newPauses()
	for {
		wake := r.wake
		if retry != nil {
			// Not before its time.
			wake = nil
		}
		select {
		case <-ctx.Done():
			return
		case <-wake:
		case <-retry:
			// It tells what is new as well.
			select {
			case <-r.wake:
			default:
			}
		}
		err := r.report(ctx)
		switch {
		case ctx.Err() != nil:
			return
		case err != nil:
			if retry == nil {
				r.cfg.Logger.Warn("podconfigd can't be told what is applied, and shows what it was told last; trying again", "error", err)
			}
			retry = r.cfg.Clock.After(pauses.Step())
		default:
			if retry != nil {
				r.cfg.Logger.Info("podconfigd takes reports again")
			}
			retry, pauses = nil, newPauses()
		}
	}
}

// newPauses are the times from one attempt to the next.
func newPauses() *wait.Backoff {
	return &wait.Backoff{Duration: 500 * time.Millisecond, Factor: 2, Jitter: 0.5, Steps: 10, Cap: 30 * time.Second}
}

func (r *Reporter) report(ctx context.Context) error {
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
	return r.cfg.Report(ctx, cursor, r.cfg.Refused())
}
