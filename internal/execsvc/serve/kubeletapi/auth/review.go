package auth

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/util/cache"
	utilnet "k8s.io/apimachinery/pkg/util/net"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/util/retry"
	"k8s.io/utils/clock"

	"golang.org/x/sync/singleflight"
)

const (
	// reviewTimeout is the time limit for a review, with all its attempts.
	reviewTimeout = 10 * time.Second
	// maxAnswers is the size of each cache.
	maxAnswers = 2048
)

// again is the backoff between attempts at a review.
var again = wait.Backoff{Duration: 200 * time.Millisecond, Factor: 2, Jitter: 0.2, Steps: 3}

// digest is the digest of a question. It is the cache's key, instead of a token.
type digest [32]byte

// answers caches the API server's answers. Positive and negative ones have a cache each.
type answers[A any] struct {
	what            string
	good, bad       *cache.LRUExpireCache
	goodFor, badFor time.Duration
	flight          singleflight.Group
	trouble         trouble
}

func newAnswers[A any](what string, goodFor, badFor time.Duration, c clock.PassiveClock, log *slog.Logger) *answers[A] {
	return &answers[A]{
		what: what, goodFor: goodFor, badFor: badFor, trouble: trouble{log: log.With("review", what)},
		good: cache.NewLRUExpireCacheWithClock(maxAnswers, c), bad: cache.NewLRUExpireCacheWithClock(maxAnswers, c),
	}
}

// asking is one attempt at a review.
type asking[A any] func(context.Context) (answer A, good bool, err error)

// get returns the answer for the digest from the cache or, when a place in the pool is free, from ask. Failures are
// not cached. Concurrent callers with the same digest share one review.
func (a *answers[A]) get(ctx context.Context, t turn, d digest, ask asking[A]) (A, error) {
	for {
		for _, memory := range []*cache.LRUExpireCache{a.good, a.bad} {
			if v, ok := memory.Get(d); ok {
				return v.(A), nil //nolint:forcetypeassert // The caches hold nothing else.
			}
		}
		v, err, shared := a.flight.Do(string(d[:]), func() (any, error) { return a.review(ctx, t, d, ask) })
		switch {
		case err == nil:
			return v.(A), nil //nolint:forcetypeassert // It is what review returns.
		case shared && errors.Is(err, context.Canceled) && ctx.Err() == nil:
			// The caller that started the review has gone; this one hasn't.
		default:
			var none A
			return none, err
		}
	}
}

func (a *answers[A]) review(ctx context.Context, t turn, d digest, ask asking[A]) (A, error) {
	var (
		answer A
		good   bool
	)
	leave, err := t.take()
	if err != nil {
		return answer, err
	}
	defer leave()
	ctx, cancel := context.WithTimeout(ctx, reviewTimeout)
	defer cancel()
	err = retry.OnError(again, func(err error) bool { return ctx.Err() == nil && transient(err) }, func() (err error) {
		answer, good, err = ask(ctx)
		return err
	})
	if !errors.Is(err, context.Canceled) {
		a.trouble.report(err)
	}
	switch {
	case err != nil:
		return answer, err
	case good:
		a.good.Add(d, answer, a.goodFor)
	default:
		a.bad.Add(d, answer, a.badFor)
	}
	return answer, nil
}

// transient reports whether a failure may soon be over.
func transient(err error) bool {
	return utilnet.IsConnectionReset(err) || utilnet.IsHTTP2ConnectionLost(err) || utilnet.IsProbableEOF(err) ||
		apierrors.IsInternalError(err) || apierrors.IsServiceUnavailable(err) || apierrors.IsTimeout(err) || apierrors.IsServerTimeout(err)
}

// trouble logs once when reviews begin to fail, and once when they succeed again.
type trouble struct {
	log *slog.Logger

	mu      sync.Mutex
	failing bool
}

func (t *trouble) report(err error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	switch failing := err != nil; {
	case failing && !t.failing:
		t.log.Error("the API server doesn't answer reviews; callers of the node's API are refused", "error", err)
	case !failing && t.failing:
		t.log.Info("the API server answers reviews again")
	}
	t.failing = err != nil
}
