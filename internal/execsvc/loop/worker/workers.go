package worker

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"

	"github.com/podstream/podstream/internal/execsvc/pod/podmeta"
)

// Config configures Workers. For zero, all times have the kubelet's values.
type Config struct {
	Syncer Syncer
	// Resync is the time between syncs of a pod without changes. Zero means 60 s; each one is up to 50 % longer.
	Resync time.Duration
	// Retry is the pause after a failure. Zero means 10 s.
	Retry time.Duration
	// RejectedFirst and RejectedLongest bound the pause before the next SyncPod of a rejected pod. Zero means 10 s and
	// 5 min, as for a crashing container.
	RejectedFirst, RejectedLongest time.Duration
	// SyncTimeout is how long a SyncPod may take, in addition to the pod's grace period, before it is canceled. Zero
	// means 10 min.
	SyncTimeout time.Duration
	// Changed is called, without any lock, when the Status of a pod's worker has changed, or the worker has ended. May
	// be nil.
	Changed func(types.UID)
	// Metrics registers the metrics of the workers. Nil: they aren't served.
	Metrics prometheus.Registerer
	// Clock is for the pauses and grace periods. Nil means the real one.
	Clock clock.WithTicker
	// Logger gets a line for each change of state and each new failure. Nil discards.
	Logger *slog.Logger
}

// Workers are the workers of all pods. It is safe for concurrent use.
type Workers struct {
	cfg     Config
	metrics *metrics
	ctx     context.Context //nolint:containedctx // It ends all workers; it lasts from New to Stop.
	cancel  context.CancelFunc
	group   sync.WaitGroup

	mu      sync.Mutex
	workers map[types.UID]*worker
	// queues are the UIDs of the pods of each full name. The first one holds the name.
	queues map[string][]types.UID
}

// worker is one pod's goroutine. Its fields are guarded by Workers.mu.
type worker struct {
	machine *machine
	// wake starts the next step at once; look starts it when quiet is over.
	wake, look chan struct{}
	// quiet is the end of the pause after a failed step. That step may have changed the pod; the runtime's events
	// about these changes must not start the next attempt at once.
	quiet time.Time
	// interrupt ends the current step. Nil between steps.
	interrupt context.CancelFunc
	err       error
	// logged is the text of the last failure that was logged as an error. transientSince is the beginning of a row of
	// transient failures. A successful step clears both.
	logged         string
	transientSince time.Time
	rejections     rejections
	// retry and waitsFor are those of Status. reported is the Status at the last call of Changed.
	retry    time.Time
	waitsFor string
	reported Status
	progress progress
	// operation is the name of the current step in the metrics. Only the worker's goroutine uses it.
	operation string
}

// New returns Workers without pods.
func New(cfg Config) *Workers {
	if cfg.Resync == 0 {
		cfg.Resync = time.Minute
	}
	if cfg.Retry == 0 {
		cfg.Retry = 10 * time.Second
	}
	if cfg.RejectedFirst == 0 {
		cfg.RejectedFirst = 10 * time.Second
	}
	if cfg.RejectedLongest == 0 {
		cfg.RejectedLongest = 5 * time.Minute
	}
	if cfg.SyncTimeout == 0 {
		cfg.SyncTimeout = 10 * time.Minute
	}
	if cfg.Clock == nil {
		cfg.Clock = clock.RealClock{}
	}
	if cfg.Logger == nil {
		cfg.Logger = slog.New(slog.DiscardHandler)
	}
	w := &Workers{cfg: cfg, metrics: newMetrics(cfg.Metrics), workers: map[types.UID]*worker{}, queues: map[string][]types.UID{}}
	w.ctx, w.cancel = context.WithCancel(context.Background())
	return w
}

// Update sets a pod that is new or has changed.
func (w *Workers) Update(pod *v1.Pod) {
	defer w.report(pod.UID)
	w.mu.Lock()
	defer w.mu.Unlock()
	now := w.cfg.Clock.Now()
	if k := w.workers[pod.UID]; k != nil {
		if !sameManifest(k.machine.pod, pod) {
			k.rejections = rejections{}
		}
		k.progress.updated = true
		k.change(func(m *machine) { m.update(now, pod) })
		return
	}
	w.start(newMachine(now, pod))
}

// Remove ends and purges a pod that is not desired any more. grace is in seconds. pod may be incomplete, and may have
// no worker yet: it was found in the runtime.
func (w *Workers) Remove(pod *v1.Pod, grace int64) {
	w.startOr(pod, func(m *machine) { m.remove(w.cfg.Clock.Now(), grace) })
}

// Resume continues the stored termination t of a pod after a restart. removed is set if the pod is not desired any
// more.
func (w *Workers) Resume(pod *v1.Pod, t Termination, removed bool) {
	w.startOr(pod, func(m *machine) { m.resume(t.restored(w.cfg.Clock.Now()), removed) })
}

// startOr changes the pod's worker, or starts one in Syncing: the pod may run.
func (w *Workers) startOr(pod *v1.Pod, change func(*machine)) {
	defer w.report(pod.UID)
	w.mu.Lock()
	defer w.mu.Unlock()
	if k := w.workers[pod.UID]; k != nil {
		k.change(change)
		return
	}
	m := &machine{state: Syncing, pod: pod}
	change(m)
	w.start(m)
}

// Kill ends a pod that stays desired; it isn't started again under this UID. It returns false if the pod has no worker
// or has ended. A current termination is only shortened.
func (w *Workers) Kill(uid types.UID, kill Kill) bool {
	defer w.report(uid)
	w.mu.Lock()
	defer w.mu.Unlock()
	k := w.workers[uid]
	if k == nil {
		return false
	}
	var ends bool
	k.change(func(m *machine) { ends = m.kill(w.cfg.Clock.Now(), kill) })
	return ends
}

// Sync starts the next step of a pod now, or one second after its last step if that failed. Unknown pods are ignored.
func (w *Workers) Sync(uid types.UID) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if k := w.workers[uid]; k != nil {
		poke(k.look)
	}
}

// Retry starts the next step of a pod now, even right after a failure: the cause may be gone.
func (w *Workers) Retry(uid types.UID) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if k := w.workers[uid]; k != nil {
		poke(k.wake)
	}
}

// Get returns the status of a pod's worker; false if there is none.
func (w *Workers) Get(uid types.UID) (Status, bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	k := w.workers[uid]
	if k == nil {
		return Status{}, false
	}
	return w.status(uid, k), true
}

// All returns the status of each worker, in no order.
func (w *Workers) All() []Status {
	w.mu.Lock()
	defer w.mu.Unlock()
	out := make([]Status, 0, len(w.workers))
	for uid, k := range w.workers {
		out = append(out, w.status(uid, k))
	}
	return out
}

// Terminating returns the UIDs of the pods that are being ended or have ended.
func (w *Workers) Terminating() map[types.UID]bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	out := map[types.UID]bool{}
	for uid, k := range w.workers {
		if k.machine.state >= Terminating {
			out[uid] = true
		}
	}
	return out
}

// Stop ends all workers and waits for them. The pods stay as they are.
func (w *Workers) Stop() {
	w.cancel()
	w.group.Wait()
}

// change changes the worker's machine and wakes it. The current step is out of date if the state has changed or the
// deadline is earlier.
func (k *worker) change(f func(*machine)) {
	state, deadline := k.machine.state, k.machine.end.Deadline
	f(k.machine)
	if state != k.machine.state {
		k.rested()
	}
	k.signal(state != k.machine.state || k.machine.end.Deadline.Before(deadline))
}

// signal wakes the worker. interrupt cancels its current step.
func (k *worker) signal(interrupt bool) {
	if interrupt && k.interrupt != nil {
		k.interrupt()
	}
	poke(k.wake)
}

// poke puts a value into a channel of capacity one, if it is empty.
func poke(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

// start starts a worker. The caller holds mu.
func (w *Workers) start(m *machine) {
	k := &worker{machine: m, wake: make(chan struct{}, 1), look: make(chan struct{}, 1), progress: progress{arrived: w.cfg.Clock.Now()}}
	uid, name := m.pod.UID, podmeta.FullName(m.pod)
	w.workers[uid] = k
	w.queues[name] = append(w.queues[name], uid)
	k.signal(false)
	w.group.Go(func() { w.run(uid, k) })
}
