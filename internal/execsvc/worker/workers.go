package worker

import (
	"context"
	"log/slog"
	"sync"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"
)

// Config says how workers work. All times have the kubelet's values for zero.
type Config struct {
	Syncer Syncer
	// Resync is the time between syncs of a pod to which nothing happens. Zero means 60 s; each is up to half longer.
	Resync time.Duration
	// Retry is the pause after a failure. Zero means 10 s.
	Retry time.Duration
	// RefusedFirst and RefusedLongest bound the pause before a pod that was refused is offered again. Zero means 10 s and 5 min, as
	// for a crashing container.
	RefusedFirst, RefusedLongest time.Duration
	// SyncTimeout is how long a SyncPod may take, besides the pod's grace period, before it is broken off. Zero means 10 min.
	SyncTimeout time.Duration
	// Changed is called, without any lock, when the Status of a pod's worker is another one, or the worker is gone. Nil: nobody is told.
	Changed func(types.UID)
	// Clock is for the pauses and grace periods. Nil means the real one.
	Clock clock.WithTicker
	// Logger gets a line for each change of state and each new failure. Nil discards.
	Logger *slog.Logger
}

// Workers are the workers of all pods. It is safe for concurrent use.
type Workers struct {
	cfg    Config
	ctx    context.Context //nolint:containedctx // It is the life of the workers, from New to Stop.
	cancel context.CancelFunc
	group  sync.WaitGroup

	mu      sync.Mutex
	workers map[types.UID]*worker
	// queues are the UIDs that want a full name, the one that has it first.
	queues map[string][]types.UID
}

// worker is one pod's goroutine. Its fields are guarded by Workers.mu.
type worker struct {
	machine *machine
	// wake has the goroutine go on at once; look does too, but not before quiet is over.
	wake, look chan struct{}
	// quiet is set by a step that failed: what it did to the pod before that, and what the runtime tells of it, is no reason to try
	// again at once, and fail again.
	quiet time.Time
	// interrupt ends the step under way. Nil between steps.
	interrupt context.CancelFunc
	err       error
	// logged is the text of the last failure that was logged as an error, and passing since when there were none but those that Result
	// calls Passing. Both are empty after a step that went well.
	logged   string
	passing  time.Time
	refusals refusals
	// retry and waitsFor are those of Status. told is the Status that Changed was called for last.
	retry    time.Time
	waitsFor string
	told     Status
}

// New returns Workers without pods.
func New(cfg Config) *Workers {
	if cfg.Resync == 0 {
		cfg.Resync = time.Minute
	}
	if cfg.Retry == 0 {
		cfg.Retry = 10 * time.Second
	}
	if cfg.RefusedFirst == 0 {
		cfg.RefusedFirst = 10 * time.Second
	}
	if cfg.RefusedLongest == 0 {
		cfg.RefusedLongest = 5 * time.Minute
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
	w := &Workers{cfg: cfg, workers: map[types.UID]*worker{}, queues: map[string][]types.UID{}}
	w.ctx, w.cancel = context.WithCancel(context.Background())
	return w
}

// Update tells of a pod that is new or has changed.
func (w *Workers) Update(pod *v1.Pod) {
	defer w.tell(pod.UID)
	w.mu.Lock()
	defer w.mu.Unlock()
	now := w.cfg.Clock.Now()
	if k := w.workers[pod.UID]; k != nil {
		if !sameManifest(k.machine.pod, pod) {
			k.refusals = refusals{}
		}
		k.change(func(m *machine) { m.update(now, pod) })
		return
	}
	w.start(newMachine(now, pod))
}

// Remove tells that a pod isn't desired any more. pod is what is known of it; grace is in seconds. Nobody may work on the pod, but it may
// run: it was found so.
func (w *Workers) Remove(pod *v1.Pod, grace int64) {
	w.startOr(pod, func(m *machine) { m.remove(w.cfg.Clock.Now(), grace) })
}

// Resume goes on with the termination of a pod that an earlier life of this agent began: t has the Deadline, and is otherwise as it was.
// removed tells that the pod isn't desired any more.
func (w *Workers) Resume(pod *v1.Pod, t Termination, removed bool) {
	w.startOr(pod, func(m *machine) { m.resume(t, removed) })
}

// startOr changes the pod's worker, or one that is started at the point where the pod may run.
func (w *Workers) startOr(pod *v1.Pod, change func(*machine)) {
	defer w.tell(pod.UID)
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

// Kill ends a pod though it stays desired: it isn't started again under this UID. It is false if there is nothing to end: no worker has
// the pod, or it has ended. A termination under way is only shortened.
func (w *Workers) Kill(uid types.UID, kill Kill) bool {
	defer w.tell(uid)
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

// Sync has a pod looked at now, or a second after its last step if that failed. Unknown pods are ignored.
func (w *Workers) Sync(uid types.UID) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if k := w.workers[uid]; k != nil {
		poke(k.look)
	}
}

// Retry has a pod looked at now, right after a step that failed too: what that step lacked may have come.
func (w *Workers) Retry(uid types.UID) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if k := w.workers[uid]; k != nil {
		poke(k.wake)
	}
}

// Get is the worker of a pod; false if there is none.
func (w *Workers) Get(uid types.UID) (Status, bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	k := w.workers[uid]
	if k == nil {
		return Status{}, false
	}
	return w.status(uid, k), true
}

// All are all workers, in no order.
func (w *Workers) All() []Status {
	w.mu.Lock()
	defer w.mu.Unlock()
	out := make([]Status, 0, len(w.workers))
	for uid, k := range w.workers {
		out = append(out, w.status(uid, k))
	}
	return out
}

// Stop ends all workers and waits for them. The pods stay as they are.
func (w *Workers) Stop() {
	w.cancel()
	w.group.Wait()
}

// change changes the worker's machine and wakes it. A step is out of date once the state is another or the deadline earlier.
func (k *worker) change(f func(*machine)) {
	state, deadline := k.machine.state, k.machine.end.Deadline
	f(k.machine)
	if state != k.machine.state {
		k.rested()
	}
	k.signal(state != k.machine.state || k.machine.end.Deadline.Before(deadline))
}

// signal wakes the worker, and has it drop what it is at if that is out of date.
func (k *worker) signal(interrupt bool) {
	if interrupt && k.interrupt != nil {
		k.interrupt()
	}
	poke(k.wake)
}

// poke leaves a value in a channel of one, if there is none.
func poke(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

// start starts a worker. The caller holds mu.
func (w *Workers) start(m *machine) {
	k := &worker{machine: m, wake: make(chan struct{}, 1), look: make(chan struct{}, 1)}
	uid, name := m.pod.UID, fullName(m.pod)
	w.workers[uid] = k
	w.queues[name] = append(w.queues[name], uid)
	k.signal(false)
	w.group.Go(func() { w.run(uid, k) })
}
