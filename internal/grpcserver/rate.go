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

// sweepInterval is how often the buckets of idle peers are dropped.
const sweepInterval = time.Minute

// rates is a token bucket for each peer.
type rates struct {
	perSecond, burst int
	clock            clock.PassiveClock
	refusals         *refusals

	mu      sync.Mutex
	buckets map[string]*rate.Limiter
	swept   time.Time
}

func newRates(l Limits, c clock.PassiveClock, r *refusals) *rates {
	return &rates{
		perSecond: l.RequestsPerSecond, burst: l.Burst, clock: c, refusals: r,
		buckets: map[string]*rate.Limiter{}, swept: c.Now(),
	}
}

func (r *rates) allow(peer string) bool {
	now := r.clock.Now()
	r.mu.Lock()
	defer r.mu.Unlock()
	if now.Sub(r.swept) >= sweepInterval {
		r.swept = now
		for key, bucket := range r.buckets {
			// A full bucket is as good as a new one.
			if bucket.TokensAt(now) >= float64(r.burst) {
				delete(r.buckets, key)
			}
		}
	}
	bucket := r.buckets[peer]
	if bucket == nil {
		bucket = rate.NewLimiter(rate.Limit(r.perSecond), r.burst)
		r.buckets[peer] = bucket
	}
	return bucket.AllowN(now, 1)
}

func (r *rates) check(ctx context.Context) error {
	caller, _ := access.FromContext(ctx)
	if r.allow(caller.Peer) {
		return nil
	}
	r.refusals.add(requestRate, caller.Peer, fmt.Errorf("more than %d requests a second", r.perSecond))
	return status.Errorf(codes.ResourceExhausted, "more than %d requests a second from %s; try again later", r.perSecond, caller.Peer)
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
