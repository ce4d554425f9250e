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
	// maxReviews are those under way, and maxReviewsOfPeer those for one address: who guesses tokens doesn't keep others from asking.
	maxReviews, maxReviewsOfPeer = 64, 16
	// reviewTimeout is how long the API server may take, all attempts together.
	reviewTimeout = 10 * time.Second
	// maxAnswers are those remembered, of each kind.
	maxAnswers = 2048
)

// again is how often, and how soon, a review is tried that failed on the way.
var again = wait.Backoff{Duration: 200 * time.Millisecond, Factor: 2, Jitter: 0.2, Steps: 3}

// digest stands for what was asked. It is what is remembered in the place of a token.
type digest [32]byte

// answers are what the API server said, for as long as that counts. Good and bad ones have a memory each.
type answers[A any] struct {
	what            string
	good, bad       *cache.LRUExpireCache
	goodFor, badFor time.Duration
	flight          singleflight.Group
	turns           *turns
	trouble         trouble
}

func newAnswers[A any](what string, goodFor, badFor time.Duration, turns *turns, c clock.PassiveClock, log *slog.Logger) *answers[A] {
	return &answers[A]{
		what: what, goodFor: goodFor, badFor: badFor, turns: turns, trouble: trouble{log: log.With("review", what)},
		good: cache.NewLRUExpireCacheWithClock(maxAnswers, c), bad: cache.NewLRUExpireCacheWithClock(maxAnswers, c),
	}
}

// asking is one attempt of a review.
type asking[A any] func(context.Context) (answer A, good bool, err error)

// get is the answer to what the digest stands for, as it is remembered or as ask says. Failures aren't remembered. Many who ask for the
// same wait for one review.
func (a *answers[A]) get(ctx context.Context, peer string, d digest, ask asking[A]) (A, error) {
	for {
		for _, memory := range []*cache.LRUExpireCache{a.good, a.bad} {
			if v, ok := memory.Get(d); ok {
				return v.(A), nil //nolint:forcetypeassert // The memories hold nothing else.
			}
		}
		v, err, shared := a.flight.Do(string(d[:]), func() (any, error) { return a.review(ctx, peer, d, ask) })
		switch {
		case err == nil:
			return v.(A), nil //nolint:forcetypeassert // It is what review returns.
		case shared && errors.Is(err, context.Canceled) && ctx.Err() == nil:
			// The one whose request this was has gone; this one hasn't.
		default:
			var none A
			return none, err
		}
	}
}

func (a *answers[A]) review(ctx context.Context, peer string, d digest, ask asking[A]) (A, error) {
	var (
		answer A
		good   bool
	)
	if !a.turns.enter(peer) {
		return answer, errBusy
	}
	defer a.turns.leave(peer)
	ctx, cancel := context.WithTimeout(ctx, reviewTimeout)
	defer cancel()
	err := retry.OnError(again, func(err error) bool { return ctx.Err() == nil && passing(err) }, func() (err error) {
		answer, good, err = ask(ctx)
		return err
	})
	if !errors.Is(err, context.Canceled) {
		a.trouble.tell(err)
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

// passing tells whether a failure may be over the next moment.
func passing(err error) bool {
	return utilnet.IsConnectionReset(err) || utilnet.IsHTTP2ConnectionLost(err) || utilnet.IsProbableEOF(err) ||
		apierrors.IsInternalError(err) || apierrors.IsServiceUnavailable(err) || apierrors.IsTimeout(err) || apierrors.IsServerTimeout(err)
}

// trouble tells that reviews fail once when it begins, and once when it ends.
type trouble struct {
	log *slog.Logger

	mu      sync.Mutex
	failing bool
}

func (t *trouble) tell(err error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	switch failing := err != nil; {
	case failing && !t.failing:
		t.log.Error("the API server gives no answer about callers of the node's API; they are refused meanwhile", "error", err)
	case !failing && t.failing:
		t.log.Info("the API server answers about callers of the node's API again")
	}
	t.failing = err != nil
}

// turns bounds the reviews under way.
type turns struct {
	max, maxOfPeer int

	mu     sync.Mutex
	all    int
	ofPeer map[string]int
}

func newTurns(all, ofPeer int) *turns {
	return &turns{max: all, maxOfPeer: ofPeer, ofPeer: map[string]int{}}
}

func (t *turns) enter(peer string) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.all >= t.max || t.ofPeer[peer] >= t.maxOfPeer {
		return false
	}
	t.all++
	t.ofPeer[peer]++
	return true
}

func (t *turns) leave(peer string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.all--
	if t.ofPeer[peer]--; t.ofPeer[peer] == 0 {
		delete(t.ofPeer, peer)
	}
}
