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

	"github.com/podstream/podstream/internal/execsvc/board"
)

// senders is how many requests are under way at once, each for another pod.
const senders = 4

// Config says whose statuses go where.
type Config struct {
	// Client is a client of the core API, as CoreV1().RESTClient() of client-go. Its rate limit is the limit here.
	Client rest.Interface
	// Board has the pods as they are.
	Board *board.Board
	// Pod is the desired pod with that UID as the stream told it last, or nil: podset.Set's Get.
	Pod func(types.UID) *v1.Pod
	// Mirror is the mirror pod of that name as the stream told it last, or nil. Nil: there are none, and nothing is told of static pods.
	Mirror func(namespace, name string) *v1.Pod
	// Quiet is how long changes are gathered that change neither phase nor readiness. Zero means 100 ms.
	Quiet time.Duration
	// Settle is how long a status that an earlier life of podexecd made waits to be made anew. Zero means 2 s.
	Settle time.Duration
	// Metrics takes the metrics. Nil: nobody does.
	Metrics prometheus.Registerer
	// Logger is told when the API server can't be told, and when it can again. Nil discards.
	Logger *slog.Logger
}

// Writer tells the API server. It is safe for concurrent use.
type Writer struct {
	cfg     Config
	log     *slog.Logger
	metrics *metrics
	// queue has the UIDs of pods to look at.
	queue workqueue.TypedDelayingInterface[types.UID]
	// begun is when this life began.
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

// Run tells until ctx ends. It can be called once.
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

// Wake says that the stream has told of the pod, or of the mirror pod, whatever it was. It doesn't wait.
func (w *Writer) Wake(pod *v1.Pod) {
	now := time.Now()
	w.mu.Lock()
	defer w.mu.Unlock()
	// Who can tell podconfigd can perhaps be told, too.
	if prober := w.outage.hurry(); prober != "" {
		w.queue.Add(prober)
	}
	if _, mirror := pod.Annotations[v1.MirrorPodAnnotationKey]; !mirror {
		w.touch(pod.UID, now)
		return
	}
	for uid, e := range w.pods {
		if e.namespace == pod.Namespace && e.name == pod.Name {
			w.touch(uid, now)
		}
	}
}

// touch has the pod looked at anew, whatever was known of it. The caller holds mu.
func (w *Writer) touch(uid types.UID, now time.Time) {
	if e := w.pods[uid]; e != nil {
		e.gone, e.retry = "", time.Time{}
		e.changed(now)
		w.queue.Add(uid)
	}
}

// follow reads the board until ctx ends.
func (w *Writer) follow(ctx context.Context) {
	var at board.Position
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

// take notes which pods changed. If it isn't resumed, the changes are all pods that there are.
func (w *Writer) take(changes []board.Change, resumed bool) {
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
			w.forget(uid)
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
				w.forget(uid)
			}
		}
	}
}

// forget drops a pod that is gone. The caller holds mu.
func (w *Writer) forget(uid types.UID) {
	delete(w.pods, uid)
	w.leave(uid)
}
