package apiobjects

import (
	"context"
	"log/slog"
	"path/filepath"
	"sync"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podstream/podstream/internal/clusteruid"
)

// Config configures a Cluster.
type Config struct {
	// Services, RuntimeClasses, TrustBundles and BetaTrustBundles are those of the API server, which need not be reachable
	// yet. BetaTrustBundles are of v1beta1.
	Services, RuntimeClasses, TrustBundles, BetaTrustBundles Resource
	// CSIDrivers are the API server's too. The zero Resource: they aren't read, and remain unknown.
	CSIDrivers Resource
	// Served returns the resources that the API server has in a version of a group.
	Served func(ctx context.Context, version schema.GroupVersion) ([]metav1.APIResource, error)
	// Wake is called with a pod whose objects were read or have changed. It must not block. Nil: no call is made,
	// and pods see changes at their next sync.
	Wake func(types.UID)
	// Dir is the directory that stores services, RuntimeClasses and CSIDrivers across restarts, in one file each; it is created
	// when needed. Empty: nothing is stored.
	Dir string
	// UID returns the UID of the cluster whose API server answers, or clusteruid.ErrUnknown: objects that were stored
	// from another cluster aren't used. Nil: it is always unknown.
	UID func(context.Context) (types.UID, error)
	// Server returns the address of the API server. It stands for the cluster where the UID is unknown. Nil: there is
	// only one.
	Server func() string
	// Logger receives a message when a kind of object can't be read, when it can again, and when stored objects are
	// used. Nil discards.
	Logger *slog.Logger
}

// Cluster has the API server's objects for pods. It is safe for concurrent use.
type Cluster struct {
	services *table[service]
	classes  *table[class]
	bundles  *table[bundle]
	drivers  *table[csiDriver]
	// bundled is closed once a pod has used a trust bundle.
	bundled chan struct{}
	bundle  sync.Once

	cfg Config
}

// New returns a Cluster without objects.
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
	if cfg.UID == nil {
		cfg.UID = func(context.Context) (types.UID, error) { return "", clusteruid.ErrUnknown }
	}
	c := &Cluster{cfg: cfg, bundled: make(chan struct{})}
	c.services = newTable("services", cutService, cfg)
	c.services.awaits = func(_ []service, known knowledge) bool { return known == unread }
	c.classes = newTable("RuntimeClasses", cutClass, cfg)
	c.classes.awaits = func(found []class, _ knowledge) bool { return len(found) == 0 }
	c.drivers = newTable("CSIDrivers", cutDriver, cfg)
	c.drivers.awaits = func([]csiDriver, knowledge) bool { return true }
	if cfg.Dir != "" {
		c.drivers.memory = newMemory[csiDriver](filepath.Join(cfg.Dir, "csidrivers.json"), cfg)
		c.services.memory = newMemory[service](filepath.Join(cfg.Dir, "services.json"), cfg)
		c.classes.memory = newMemory[class](filepath.Join(cfg.Dir, "runtimeclasses.json"), cfg)
	}
	c.bundles = newTable("ClusterTrustBundles", cutBundle, cfg)
	c.bundles.awaits = func([]bundle, knowledge) bool { return true }
	return c
}

// Run reads until ctx ends. When it returns, the objects are stored.
func (c *Cluster) Run(ctx context.Context) {
	var running sync.WaitGroup
	running.Go(func() { c.services.run(ctx, c.findServices) })
	running.Go(func() { c.classes.run(ctx, c.findClasses) })
	if c.cfg.CSIDrivers.list != nil {
		running.Go(func() { c.drivers.run(ctx, c.findDrivers) })
	}
	running.Go(func() {
		select {
		case <-c.bundled:
			c.bundles.run(ctx, c.findBundles)
		case <-ctx.Done():
		}
	})
	running.Wait()
}

// Drop removes the pod: it is no longer woken.
func (c *Cluster) Drop(uid types.UID) {
	c.services.drop(uid)
	c.classes.drop(uid)
	c.bundles.drop(uid)
	c.drivers.drop(uid)
}
