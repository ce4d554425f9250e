package apiserver

import (
	"context"
	"sync"

	"golang.org/x/time/rate"

	"github.com/podstream/podstream/internal/rotation"
)

const (
	// objectRequests is how many requests of objects are begun in a second, after the first objectBurst, and
	// objectsUnderway how many wait for the server's answer at once. A watch is under way until it is open.
	objectRequests, objectBurst = 400, 100
	objectsUnderway             = 64
)

// gate paces the requests of objects, however many there are. It is fair between namespaces: one with thousands of
// objects doesn't delay the objects of the pods in another one. A nil gate lets all requests through.
type gate struct {
	pace *rate.Limiter

	mu    sync.Mutex
	free  int
	queue rotation.Queue
}

func newGate() *gate {
	return &gate{pace: rate.NewLimiter(objectRequests, objectBurst), free: objectsUnderway}
}

// enter waits until a request for the namespace may begin. The caller calls leave when it is answered.
func (g *gate) enter(ctx context.Context, namespace string) (leave func(), err error) {
	if g == nil {
		return func() {}, nil
	}
	if err := g.take(ctx, namespace); err != nil {
		return nil, err
	}
	if err := g.pace.Wait(ctx); err != nil {
		g.leave()
		return nil, err
	}
	return g.leave, nil
}

func (g *gate) take(ctx context.Context, namespace string) error {
	g.mu.Lock()
	if g.free > 0 {
		g.free--
		g.mu.Unlock()
		return nil
	}
	served := g.queue.Add(namespace)
	g.mu.Unlock()
	select {
	case <-served:
		return nil
	case <-ctx.Done():
	}
	g.mu.Lock()
	waiting := g.queue.Remove(namespace, served)
	g.mu.Unlock()
	if !waiting {
		g.leave() // It was served meanwhile.
	}
	return ctx.Err()
}

func (g *gate) leave() {
	g.mu.Lock()
	defer g.mu.Unlock()
	if !g.queue.Serve() {
		g.free++
	}
}
