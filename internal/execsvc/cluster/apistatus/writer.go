package apistatus

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/util/workqueue"

	"github.com/podstream/podstream/internal/execsvc/pod/podmeta"
	"github.com/podstream/podstream/internal/execsvc/pod/podview"
)

// senders is the number of concurrent requests, each for another pod.
const senders = 4

// Config configures a Writer.
type Config struct {
	// Client is a client of the core API, as client-go's CoreV1().RESTClient(). Its rate limit applies.
	Client rest.Interface
	// Board has the current state of the pods.
	Board *podview.Board
	// Pod returns the stream's desired pod with that UID, or nil: podset.Set.Get.
	Pod func(types.UID) *v1.Pod
	// Mirror returns the stream's mirror pod of that name, or nil. A nil function: no statuses of static pods are
	// posted.
	Mirror func(namespace, name string) *v1.Pod
	// Quiet is how long changes that affect neither phase nor readiness are gathered. Zero means 100 ms.
	Quiet time.Duration
	// Settle is how long a status from before a restart waits until it is computed again. Zero means 2 s.
	Settle time.Duration
	// Metrics registers the metrics. Nil: no metrics.
	Metrics prometheus.Registerer
	// Logger receives a message when statuses can't be posted, and when they can again. Nil discards.
	Logger *slog.Logger
}

// Writer posts statuses to the API server. It is safe for concurrent use.
type Writer struct {
	cfg     Config
	log     *slog.Logger
	metrics *metrics
	// queue has the UIDs of pods to look at.
	queue workqueue.TypedDelayingInterface[types.UID]
	// begun is the time of New.
	begun time.Time

	mu     sync.Mutex
	pods   map[types.UID]*entry
	outage outage
}

// New returns a Writer that isn't running.
func New(cfg Config) *Writer {
	if cfg.Mirror == nil {
		cfg.Mirror = func(string, string) *v1.Pod { return nil }
	}
	if cfg.Quiet == 0 {
		cfg.Quiet = 100 * time.Millisecond
	}
	if cfg.Settle == 0 {
		cfg.Settle = 2 * time.Second
	}
	if cfg.Logger == nil {
		cfg.Logger = slog.New(slog.DiscardHandler)
	}
	return &Writer{
		cfg: cfg, log: cfg.Logger, metrics: newMetrics(cfg.Metrics), begun: time.Now(), pods: map[types.UID]*entry{},
		queue: workqueue.NewTypedDelayingQueue[types.UID](),
	}
}

// Run posts statuses until ctx ends. It can be called once.
func (w *Writer) Run(ctx context.Context) {
	var group sync.WaitGroup
	for range senders {
		group.Go(func() {
			for w.sendNext(ctx) {
			}
		})
	}
	w.follow(ctx)
	w.queue.ShutDown()
	group.Wait()
}

// Wake reports that the stream has changed the pod or mirror pod. It doesn't block.
func (w *Writer) Wake(pod *v1.Pod) {
	now := time.Now()
	w.mu.Lock()
	defer w.mu.Unlock()
	// If podconfigd reaches the API server, podexecd probably does, too.
	if prober := w.outage.hurry(); prober != "" {
		w.queue.Add(prober)
	}
	if !podmeta.IsMirror(pod) {
		w.touch(pod.UID, now)
		return
	}
	for uid, e := range w.pods {
		if e.namespace == pod.Namespace && e.name == pod.Name {
			w.touch(uid, now)
		}
	}
}

// Pending reports whether a pod has a status, or its deletion, that the API server hasn't got yet. Requests that the
// server refuses or doesn't answer don't count.
func (w *Writer) Pending() bool {
	now := time.Now()
	w.mu.Lock()
	defer w.mu.Unlock()
	for uid, e := range w.pods {
		if t, _ := w.task(uid, e, now); t != nil && e.failures == 0 && !w.outage.reported {
			return true
		}
	}
	return false
}

// touch queues the pod. The caller holds mu.
func (w *Writer) touch(uid types.UID, now time.Time) {
	if e := w.pods[uid]; e != nil {
		e.gone, e.retry = "", time.Time{}
		e.changed(now)
		w.queue.Add(uid)
	}
}

// follow reads the board until ctx ends.
func (w *Writer) follow(ctx context.Context) {
	var at podview.Position
	for {
		changes, now, more, resumed := w.cfg.Board.Since(at)
		w.take(changes, resumed)
		at = now
		select {
		case <-more:
		case <-ctx.Done():
			return
		}
	}
}

// take queues the pods that changed. If it isn't resumed, the changes are all pods that exist.
func (w *Writer) take(changes []podview.Change, resumed bool) {
	now := time.Now()
	w.mu.Lock()
	defer w.mu.Unlock()
	before := w.pods
	if !resumed {
		w.pods = make(map[types.UID]*entry, len(changes))
	}
	for _, c := range changes {
		uid := c.Pod.UID
		if c.Removed {
			w.drop(uid)
			continue
		}
		e := before[uid]
		if e == nil {
			e = &entry{namespace: c.Pod.Namespace, name: c.Pod.Name}
		}
		w.pods[uid] = e
		e.changed(now)
		w.queue.Add(uid)
	}
	if !resumed {
		for uid := range before {
			if w.pods[uid] == nil {
				w.drop(uid)
			}
		}
	}
}

// drop removes a pod that is gone. The caller holds mu.
func (w *Writer) drop(uid types.UID) {
	delete(w.pods, uid)
	w.leave(uid)
}
