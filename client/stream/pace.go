package stream

import (
	"context"
	"time"

	"golang.org/x/time/rate"
)

// The bounds of a Pace. An honest podconfigd sends a heartbeat a second at most, synced once per stream, and a SET
// when a stream begins or, in a snapshot mode, for each change of the consumer's pods, which are few per second on a
// node. A consumer compares all its pods with a SET, and all sources with a list of them, so these are the messages
// that cost it most for the fewest bytes. A podconfigd that sends more of them waits: gRPC stops reading, and
// podconfigd coalesces.
const (
	pacePerSecond = 10
	paceBurst     = 100
)

// Pace bounds the rate at which a consumer takes SETs and lists of sources (synced and heartbeats). It belongs to a
// consumer, whose streams share it: a new stream grants nothing. It is safe for concurrent use.
type Pace struct{ limiter *rate.Limiter }

// NewPace returns a Pace.
func NewPace() *Pace { return &Pace{rate.NewLimiter(pacePerSecond, paceBurst)} }

// wait waits until one more may be taken. It returns the cause of the end of ctx. A nil Pace has no bound.
func (p *Pace) wait(ctx context.Context) error {
	if p == nil {
		return nil
	}
	// Limiter.Wait would return at once if the deadline of ctx came before.
	pause := p.limiter.Reserve().Delay()
	if pause == 0 {
		return nil
	}
	timer := time.NewTimer(pause)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
