package relay

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/utils/clock"

	"github.com/podstream/podstream/client/position"
	"github.com/podstream/podstream/client/stream"
)

// pace decides how long to wait before another attempt.
type pace struct {
	clock clock.WithTicker
	cfg   Backoff
	// quick is for errors that pass soon, slow for those that only a person or time resolves.
	quick, slow wait.Backoff
	// goodSince is since when the current stream has been in step. Zero: it isn't.
	goodSince time.Time
}

func newPace(cfg Config) *pace {
	p := &pace{clock: cfg.Clock, cfg: cfg.Backoff}
	p.quick, p.slow = p.newQuick(), p.newSlow()
	return p
}

// manySteps is never used up: the cap is reached before.
const manySteps = 64

func (p *pace) newQuick() wait.Backoff {
	return wait.Backoff{Duration: p.cfg.Min, Factor: 2, Jitter: 0.5, Steps: manySteps, Cap: p.cfg.Max}
}

func (p *pace) newSlow() wait.Backoff {
	return wait.Backoff{Duration: 10 * p.cfg.Min, Factor: 2, Jitter: 1, Steps: manySteps, Cap: max(3*p.cfg.Max, 10*p.cfg.Min)}
}

// good records that the stream is in step.
func (p *pace) good() {
	p.quick = p.newQuick()
	if p.goodSince.IsZero() {
		p.goodSince = p.clock.Now()
	}
}

// after returns how long to wait after a stream that ended with err. Repeated refusals lead to longer and longer
// waits, though each stream begins well.
func (p *pace) after(err error) time.Duration {
	lasted := !p.goodSince.IsZero() && p.clock.Since(p.goodSince) > p.slow.Cap
	p.goodSince = time.Time{}
	if lasted {
		p.slow = p.newSlow()
	}
	if takesLong(err) {
		return p.slow.Step()
	}
	return p.quick.Step()
}

// takesLong reports whether another attempt soon is of little use.
func takesLong(err error) bool {
	for _, slow := range []error{errLoop, errNonsense, errTooMuch, errUnfinished, errRedacted, stream.ErrBehind, position.ErrInvalid} {
		if errors.Is(err, slow) {
			return true
		}
	}
	switch status.Code(err) {
	case codes.PermissionDenied, codes.Unauthenticated, codes.InvalidArgument, codes.Unimplemented, codes.ResourceExhausted:
		return true
	default:
		return false
	}
}

// maxReason bounds the shown text of an upstream's error, in bytes.
const maxReason = 512

// failure is why the upstream can't be relayed now, as it is shown.
type failure struct {
	endpoint string
	err      error
}

func (f failure) Error() string {
	text := f.err.Error()
	if s, ok := status.FromError(f.err); ok {
		text = fmt.Sprintf("%s: %s", s.Code(), s.Message())
	}
	if len(text) > maxReason {
		text = strings.ToValidUTF8(text[:maxReason], "") + "…"
	}
	return "podconfigd at " + f.endpoint + ": " + text
}

func (f failure) Unwrap() error { return f.err }
