package kubeletapi

import (
	"context"
	"net/http"
	"sync/atomic"

	"github.com/podstream/podstream/internal/execsvc/pod/observed"
)

// Endpoints are the parts of the API that need the container runtime.
type Endpoints struct {
	// Runtime has the pods of /runningpods.
	Runtime Runtime
	// Streams is Config.Streams.
	Streams http.Handler
	// Handlers are some of Config.Handlers, by path.
	Handlers map[string]http.Handler
	// SyncLoop is the check of that name.
	SyncLoop func() error
}

// Backend gives a Config the endpoints that need the container runtime before that has answered. Until Publish is called, handlers
// answer 503 and all else fails with ErrNoRuntime. It is safe for concurrent use.
type Backend struct{ endpoints atomic.Pointer[Endpoints] }

// Publish sets the endpoints.
func (b *Backend) Publish(e Endpoints) { b.endpoints.Store(&e) }

// List implements Runtime.
func (b *Backend) List(ctx context.Context) ([]*observed.Pod, error) {
	if e := b.endpoints.Load(); e != nil {
		return e.Runtime.List(ctx)
	}
	return nil, ErrNoRuntime
}

// SyncLoop is a check for Config.Checks.
func (b *Backend) SyncLoop() error {
	if e := b.endpoints.Load(); e != nil {
		return e.SyncLoop()
	}
	return ErrNoRuntime
}

// Streams returns the handler for Config.Streams.
func (b *Backend) Streams() http.Handler {
	return b.handler(func(e *Endpoints) http.Handler { return e.Streams })
}

// Handler returns the handler for a path of Config.Handlers.
func (b *Backend) Handler(path string) http.Handler {
	return b.handler(func(e *Endpoints) http.Handler { return e.Handlers[path] })
}

func (b *Backend) handler(of func(*Endpoints) http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if e := b.endpoints.Load(); e != nil {
			of(e).ServeHTTP(w, r)
			return
		}
		answer(w, unavailable("%v", ErrNoRuntime))
	})
}
