package podctl

import (
	"context"
	"errors"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"k8s.io/apimachinery/pkg/util/wait"

	"github.com/podstream/podstream/internal/retry"
)

// reconnection is the state of a command that follows a stream across its connections.
type reconnection struct {
	tool *tool
	// daemon is the daemon's name in notes.
	daemon string
	// live is true once the current stream has delivered something, and connected once any stream has.
	live, connected bool
	// broken is true from a reported break until the next stream is live.
	broken bool
}

// ownError is an error of podctl rather than of the stream: of printing, or of storing the position.
type ownError struct{ error }

func (e ownError) Unwrap() error { return e.error }

// reconnect calls subscribe, which follows one stream to its end, until ctx ends, which is not an error, or until an
// error that a retry can't resolve: an ownError, or one that is permanent. If the first connection fails, reconnect
// returns the error, unless connected was set before: the endpoint is probably wrong. broke is called after that failure,
// and after a stream that delivered something.
func (r *reconnection) reconnect(
	ctx context.Context, subscribe func(context.Context) error, permanent func(error) bool, broke func(error),
) error {
	pauses, first := r.newPauses(), true
	err := retry.Run(ctx, r.tool.Clock, func(ctx context.Context) error {
		r.live = false
		return subscribe(ctx)
	}, func(err error) (time.Duration, error) {
		var own ownError
		switch {
		case errors.As(err, &own):
			return 0, own.error
		case !r.connected || permanent(err):
			return 0, err
		}
		if r.live || first {
			first = false
			pauses, r.broken = r.newPauses(), true
			broke(err)
		}
		return pauses.Step(), nil
	})
	if ctx.Err() != nil {
		return nil //nolint:nilerr // The user has ended it: that is no failure.
	}
	return err
}

// newPauses returns the pauses between two connections.
func (r *reconnection) newPauses() wait.Backoff {
	const doublings = 40 // the cap ends the growth before
	delay := r.tool.ReconnectDelay
	return wait.Backoff{Duration: delay, Factor: 2, Jitter: 0.2, Steps: doublings, Cap: 40 * delay}
}

// arrived records that the stream has delivered something.
func (r *reconnection) arrived() {
	r.live, r.connected = true, true
	if r.broken {
		r.broken = false
		r.tool.note("connected to %s again", r.daemon)
	}
}

// permanent reports whether the same request will get the same error.
func permanent(err error) bool {
	switch status.Code(err) {
	case codes.InvalidArgument, codes.PermissionDenied, codes.Unauthenticated, codes.Unimplemented:
		return true
	}
	return false
}
