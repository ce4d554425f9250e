package grpcserver

import (
	"context"
	"fmt"
	"sync"
	"time"

	"golang.org/x/time/rate"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"k8s.io/utils/clock"

	"github.com/podstream/podstream/internal/access"
)

// sweepInterval is the interval at which the buckets of idle peers are dropped.
const sweepInterval = time.Minute

// rates has a token bucket for each peer. The peers at an address that are neither consumers nor operators also share
// a larger one.
type rates struct {
	perSecond, burst int
	clock            clock.PassiveClock
	refusals         *refusals

	mu        sync.Mutex
	peers     map[holder]*rate.Limiter
	addresses map[string]*rate.Limiter
	swept     time.Time
}

func newRates(l Limits, c clock.PassiveClock, r *refusals) *rates {
	return &rates{
		perSecond: l.RequestsPerSecond, burst: l.Burst, clock: c, refusals: r,
		peers: map[holder]*rate.Limiter{}, addresses: map[string]*rate.Limiter{}, swept: c.Now(),
	}
}

func (r *rates) allow(peer holder) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	// Read under the lock: after a call with an earlier time, a bucket would fill twice for the time in between.
	now := r.clock.Now()
	if now.Sub(r.swept) >= sweepInterval {
		r.swept = now
		sweepFull(r.peers, now)
		sweepFull(r.addresses, now)
	}
	if !bucket(r.peers, peer, r.perSecond, r.burst).AllowN(now, 1) {
		return false
	}
	const all = peersPerAddress - 1
	return !peer.weak || bucket(r.addresses, peer.address, all*r.perSecond, all*r.burst).AllowN(now, 1)
}

// sweepFull drops the full buckets: a new bucket is full too.
func sweepFull[K comparable](buckets map[K]*rate.Limiter, now time.Time) {
	for key, b := range buckets {
		if b.TokensAt(now) >= float64(b.Burst()) {
			delete(buckets, key)
		}
	}
}

func bucket[K comparable](buckets map[K]*rate.Limiter, key K, perSecond, burst int) *rate.Limiter {
	b := buckets[key]
	if b == nil {
		b = rate.NewLimiter(rate.Limit(perSecond), burst)
		buckets[key] = b
	}
	return b
}

func (r *rates) check(ctx context.Context) error {
	caller, _ := access.FromContext(ctx)
	peer := holderOf(caller)
	if r.allow(peer) {
		return nil
	}
	r.refusals.add(requestRate, peer.String(), fmt.Errorf("more than %d requests a second", r.perSecond))
	return status.Errorf(codes.ResourceExhausted, "more than %d requests a second from %v; try again later", r.perSecond, peer)
}

func (r *rates) unary(ctx context.Context, req any, _ *grpc.UnaryServerInfo, handler grpc.UnaryHandler) (any, error) {
	if err := r.check(ctx); err != nil {
		return nil, err
	}
	return handler(ctx, req)
}

func (r *rates) stream(srv any, stream grpc.ServerStream, _ *grpc.StreamServerInfo, handler grpc.StreamHandler) error {
	if err := r.check(stream.Context()); err != nil {
		return err
	}
	return handler(srv, stream)
}
