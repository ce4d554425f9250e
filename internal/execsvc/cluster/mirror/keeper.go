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

	"github.com/podstream/podstream/internal/execsvc/pod/podmeta"
	"github.com/podstream/podstream/internal/kubeletmetrics"
)

const (
	// The pause between attempts at one pod doubles from firstPause to longestPause.
	firstPause   = 500 * time.Millisecond
	longestPause = 30 * time.Second
	// streamPatience is how long a created mirror pod counts as existing before the stream has it.
	streamPatience = time.Minute
)

// Set is a set of pods: a *podset.Set.
type Set interface {
	All() []*v1.Pod
	// ByName returns the pod of that name, or nil.
	ByName(namespace, name string) *v1.Pod
}

// Config configures a Keeper.
type Config struct {
	// Client is a client of the core API, as client-go's CoreV1().RESTClient().
	Client rest.Interface
	// Node is the node's name, and NodeUID returns its UID at the API server. While that is empty no mirror pod is
	// created.
	Node    string
	NodeUID func() types.UID
	// Pods are the desired pods, and Mirrors the mirror pods of this node, both from the stream.
	Pods, Mirrors Set
	// Settled reports whether a source is ready, and for "" whether all are: that of podset.Set.
	Settled func(source string) bool
	// Ending reports whether a static pod of that name, or a former version of it, is terminating: its mirror pod stays
	// until it has ended. Nil: none ever is.
	Ending func(namespace, name string) bool
	// Lives reports whether the static pod with that UID hasn't ended. If its mirror pod has, the pod has started
	// again. Nil: unknown.
	Lives func(types.UID) bool
	// Period is the time between two comparisons of all pods. Zero means 2 s, the kubelet's housekeeping.
	Period time.Duration
	// Metrics registers the metric. Nil: no metrics.
	Metrics prometheus.Registerer
	// Logger receives the reason why a pod has no mirror pod. Nil discards.
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
	// blind is set once it has been logged that the stream lacks mirror pods, until it has one.
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
		wanted: kubeletmetrics.MirrorPods.New(cfg.Metrics),
	}
	return k
}

// Wake reports that the stream has changed the pod or mirror pod. It doesn't block.
func (k *Keeper) Wake(pod *v1.Pod) {
	if podmeta.IsMirror(pod) || podmeta.IsStatic(pod) {
		k.queue.Add(nameOf(pod))
	}
}

// Run keeps mirror pods until ctx ends. They stay after that. It can be called once.
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

// look queues all pods except those in a pause; if paused is set, those too.
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
		if podmeta.IsStatic(pod) {
			static++
			add(pod)
		}
	}
	for _, pod := range k.cfg.Mirrors.All() {
		add(pod)
	}
	k.wanted.Set(float64(static))
}

// workNext reconciles the next pod. It returns false when the queue has shut down.
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
	k.report(name, err)
	return true
}

func nameOf(pod *v1.Pod) types.NamespacedName {
	return types.NamespacedName{Namespace: pod.Namespace, Name: pod.Name}
}
