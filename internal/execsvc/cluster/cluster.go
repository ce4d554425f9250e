package cluster

import (
	"context"
	"log/slog"
	"path/filepath"
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
	// Dir is where services and RuntimeClasses are remembered for the next life, in a file each; it is made when it is needed. Empty:
	// nothing is remembered.
	Dir string
	// Server names the API server that Client reaches now: what was remembered of another one is left alone. Nil: all are one.
	Server func() string
	// Logger is told when a kind of objects can't be read, and when it can again, and what of that comes from Dir. Nil discards.
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
	if cfg.Server == nil {
		cfg.Server = func() string { return "" }
	}
	c := &Cluster{client: cfg.Client, bundled: make(chan struct{})}
	c.services = newTable("services", cutService, cfg)
	c.services.awaits = func(_ []service, known knowledge) bool { return known == unread }
	c.classes = newTable("RuntimeClasses", cutClass, cfg)
	c.classes.awaits = func(found []class, _ knowledge) bool { return len(found) == 0 }
	if cfg.Dir != "" {
		c.services.memory = newMemory[service](filepath.Join(cfg.Dir, "services.json"), cfg)
		c.classes.memory = newMemory[class](filepath.Join(cfg.Dir, "runtimeclasses.json"), cfg)
	}
	c.bundles = newTable("ClusterTrustBundles", cutBundle, cfg)
	c.bundles.awaits = func([]bundle, knowledge) bool { return true }
	return c
}

// Run reads until ctx ends. When it returns, what was read is remembered.
func (c *Cluster) Run(ctx context.Context) {
	var running sync.WaitGroup
	running.Go(func() { c.services.run(ctx, c.findServices) })
	running.Go(func() { c.classes.run(ctx, c.findClasses) })
	running.Go(func() {
		select {
		case <-c.bundled:
			c.bundles.run(ctx, c.findBundles)
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
