package mirror

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/util/workqueue"

	"github.com/podstream/podstream/internal/execsvc/criconfig"
)

const (
	// firstPause and then the doubles of it, up to longestPause, lie between attempts at one pod.
	firstPause   = 500 * time.Millisecond
	longestPause = 30 * time.Second
	// streamPatience is how long a mirror pod that was made counts as there though the stream hasn't told of it.
	streamPatience = time.Minute
)

// Set is some pods; podset.Set is one.
type Set interface {
	All() []*v1.Pod
	// ByName is the pod of that name, or nil.
	ByName(namespace, name string) *v1.Pod
}

// Config says whose mirror pods are kept where.
type Config struct {
	// Client is a client of the core API, as CoreV1().RESTClient() of client-go.
	Client rest.Interface
	// Node is the node's name, and NodeUID its UID at the API server. While that is empty no mirror pod is made.
	Node    string
	NodeUID func() types.UID
	// Pods are the desired pods, and Mirrors the mirror pods of this node, both as the stream told them last.
	Pods, Mirrors Set
	// Settled tells whether a source has told all its pods, and of the source "" whether all have: podset.Set's.
	Settled func(source string) bool
	// Ending tells whether a static pod of that name is on its way out: its mirror pod stays until it has ended. Nil: none ever is.
	Ending func(namespace, name string) bool
	// Lives tells whether the static pod with that UID hasn't ended: one whose mirror pod has ended there has begun anew. Nil: nobody knows.
	Lives func(types.UID) bool
	// Period is the time between two looks at all pods. Zero means 2 s, the kubelet's housekeeping.
	Period time.Duration
	// Metrics takes the metric. Nil: nobody does.
	Metrics prometheus.Registerer
	// Logger is told why a pod has no mirror pod. Nil discards.
	Logger *slog.Logger
}

// Keeper keeps mirror pods. It is safe for concurrent use.
type Keeper struct {
	cfg     Config
	log     *slog.Logger
	wanted  prometheus.Gauge
	queue   workqueue.TypedRateLimitingInterface[types.NamespacedName]
	entries map[types.NamespacedName]*entry
	// down is set while the API server doesn't answer.
	down bool
	// blind is set once it was told that the stream leaves out mirror pods, until it has one.
	blind bool
}

// New returns a Keeper that isn't running.
func New(cfg Config) *Keeper {
	if cfg.Ending == nil {
		cfg.Ending = func(string, string) bool { return false }
	}
	if cfg.Lives == nil {
		cfg.Lives = func(types.UID) bool { return false }
	}
	if cfg.Period == 0 {
		cfg.Period = 2 * time.Second
	}
	if cfg.Logger == nil {
		cfg.Logger = slog.New(slog.DiscardHandler)
	}
	k := &Keeper{
		cfg: cfg, log: cfg.Logger, entries: map[types.NamespacedName]*entry{},
		queue: workqueue.NewTypedRateLimitingQueue(
			workqueue.NewTypedItemExponentialFailureRateLimiter[types.NamespacedName](firstPause, longestPause)),
		wanted: prometheus.NewGauge(prometheus.GaugeOpts{Name: "kubelet_mirror_pods", Help: "Static pods, each of which is to have a mirror pod."}),
	}
	if cfg.Metrics != nil {
		cfg.Metrics.MustRegister(k.wanted)
	}
	return k
}

// Wake says that the stream has told of the pod, or of the mirror pod, whatever it was. It doesn't wait.
func (k *Keeper) Wake(pod *v1.Pod) {
	if criconfig.Mirror(pod) || criconfig.Static(pod) {
		k.queue.Add(nameOf(pod))
	}
}

// Run keeps mirror pods until ctx ends. They stay. It can be called once.
func (k *Keeper) Run(ctx context.Context) {
	var group sync.WaitGroup
	group.Go(func() {
		for k.workNext(ctx) {
		}
	})
	ticker := time.NewTicker(k.cfg.Period)
	defer ticker.Stop()
	for ctx.Err() == nil {
		k.look(false)
		select {
		case <-ticker.C:
		case <-ctx.Done():
		}
	}
	k.queue.ShutDown()
	group.Wait()
}

// look has all pods looked at but those whose pause isn't over, or these as well.
func (k *Keeper) look(paused bool) {
	static := 0
	add := func(pod *v1.Pod) {
		name := nameOf(pod)
		if paused {
			k.queue.Forget(name)
		}
		if k.queue.NumRequeues(name) == 0 {
			k.queue.Add(name)
		}
	}
	for _, pod := range k.cfg.Pods.All() {
		if criconfig.Static(pod) {
			static++
			add(pod)
		}
	}
	for _, pod := range k.cfg.Mirrors.All() {
		add(pod)
	}
	k.wanted.Set(float64(static))
}

// workNext looks at the next pod. It is false when there is nothing more to do.
func (k *Keeper) workNext(ctx context.Context) bool {
	name, shutdown := k.queue.Get()
	if shutdown {
		return false
	}
	defer k.queue.Done(name)
	if ctx.Err() != nil {
		return true
	}
	err := k.reconcile(ctx, name)
	switch {
	case ctx.Err() != nil:
		return true
	case err == nil, errors.Is(err, errNotYet):
		k.queue.Forget(name)
	default:
		k.queue.AddRateLimited(name)
	}
	k.tell(name, err)
	return true
}

const hashAnnotation = "kubernetes.io/config.hash"

func nameOf(pod *v1.Pod) types.NamespacedName {
	return types.NamespacedName{Namespace: pod.Namespace, Name: pod.Name}
}
