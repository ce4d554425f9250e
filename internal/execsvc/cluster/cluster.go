package cluster

import (
	"context"
	"log/slog"
	"sync"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
)

// Config says where a Cluster reads.
type Config struct {
	// Client speaks to the API server. It makes no difference whether that can be reached yet.
	Client kubernetes.Interface
	// Wake has a pod looked at again: what it waits for was read, or what it has read has changed. It must not block. Nil: nobody is
	// woken, and pods ask again at their next sync.
	Wake func(types.UID)
	// Logger is told when a kind of objects can't be read, and when it can again. Nil discards.
	Logger *slog.Logger
}

// Cluster is what the API server has for pods. It is safe for concurrent use.
type Cluster struct {
	services *table[service]
	classes  *table[class]
	bundles  *table[bundle]
	// bundled is closed once a pod has asked for a trust bundle.
	bundled chan struct{}
	bundle  sync.Once

	client kubernetes.Interface
}

// New returns a Cluster of which nothing is known.
func New(cfg Config) *Cluster {
	if cfg.Wake == nil {
		cfg.Wake = func(types.UID) {}
	}
	if cfg.Logger == nil {
		cfg.Logger = slog.New(slog.DiscardHandler)
	}
	c := &Cluster{client: cfg.Client, bundled: make(chan struct{})}
	c.services = newTable("services", cutService, cfg)
	c.services.awaits = func(_ []service, read bool) bool { return !read }
	c.classes = newTable("RuntimeClasses", cutClass, cfg)
	c.classes.awaits = func(found []class, _ bool) bool { return len(found) == 0 }
	c.bundles = newTable("ClusterTrustBundles", cutBundle, cfg)
	c.bundles.awaits = func([]bundle, bool) bool { return true }
	return c
}

// Run reads until ctx ends.
func (c *Cluster) Run(ctx context.Context) {
	var running sync.WaitGroup
	running.Go(func() { c.services.follow(ctx, c.findServices) })
	running.Go(func() { c.classes.follow(ctx, c.findClasses) })
	running.Go(func() {
		select {
		case <-c.bundled:
			c.bundles.follow(ctx, c.findBundles)
		case <-ctx.Done():
		}
	})
	running.Wait()
}

// Forget drops what is known of the pod: nobody wakes it any more.
func (c *Cluster) Forget(uid types.UID) {
	c.services.forget(uid)
	c.classes.forget(uid)
	c.bundles.forget(uid)
}
