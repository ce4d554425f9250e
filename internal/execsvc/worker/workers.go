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
	// Clock is for the pauses. Nil means the real one.
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
	wake    chan struct{}
	// interrupt ends the step under way. Nil between steps.
	interrupt context.CancelFunc
	err       error
	refusals  refusals
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
	w.mu.Lock()
	defer w.mu.Unlock()
	if k := w.workers[pod.UID]; k != nil {
		if !sameManifest(k.machine.pod, pod) {
			k.refusals = refusals{}
		}
		k.change(func(m *machine) { m.update(pod) })
		return
	}
	w.start(newMachine(pod))
}

// Remove tells that a pod isn't desired any more. pod is what is known of it; grace is in seconds.
func (w *Workers) Remove(pod *v1.Pod, grace int64) {
	w.mu.Lock()
	defer w.mu.Unlock()
	k := w.workers[pod.UID]
	if k == nil {
		// Nobody works on it, but it may run: it was found so.
		m := &machine{state: Syncing, pod: pod}
		m.remove(grace)
		w.start(m)
		return
	}
	k.change(func(m *machine) { m.remove(grace) })
}

// Sync has a pod looked at now. Unknown pods are ignored.
func (w *Workers) Sync(uid types.UID) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if k := w.workers[uid]; k != nil {
		k.signal(false)
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
	return k.status(), true
}

// All are all workers, in no order.
func (w *Workers) All() []Status {
	w.mu.Lock()
	defer w.mu.Unlock()
	out := make([]Status, 0, len(w.workers))
	for _, k := range w.workers {
		out = append(out, k.status())
	}
	return out
}

// Stop ends all workers and waits for them. The pods stay as they are.
func (w *Workers) Stop() {
	w.cancel()
	w.group.Wait()
}

func (k *worker) status() Status {
	return Status{State: k.machine.state, Pod: k.machine.pod, Removed: k.machine.removed, Err: k.err}
}

// change changes the worker's machine and wakes it. A step is out of date once the state is another or the grace period shorter.
func (k *worker) change(f func(*machine)) {
	state, grace := k.machine.state, k.machine.grace
	f(k.machine)
	k.signal(state != k.machine.state || grace > k.machine.grace)
}

// signal wakes the worker, and has it drop what it is at if that is out of date.
func (k *worker) signal(interrupt bool) {
	if interrupt && k.interrupt != nil {
		k.interrupt()
	}
	select {
	case k.wake <- struct{}{}:
	default:
	}
}

// start starts a worker. The caller holds mu.
func (w *Workers) start(m *machine) {
	k := &worker{machine: m, wake: make(chan struct{}, 1)}
	uid, name := m.pod.UID, fullName(m.pod)
	w.workers[uid] = k
	w.queues[name] = append(w.queues[name], uid)
	k.signal(false)
	w.group.Go(func() { w.run(uid, k) })
}

// run is a worker's goroutine.
func (w *Workers) run(uid types.UID, k *worker) {
	timer := w.cfg.Clock.NewTimer(w.cfg.Resync)
	defer timer.Stop()
	for {
		select {
		case <-k.wake:
		case <-timer.C():
		case <-w.ctx.Done():
			return
		}
		pause, alive := w.steps(uid, k)
		if !alive {
			return
		}
		if !timer.Stop() {
			// It may have fired meanwhile, and not every Clock takes that back.
			select {
			case <-timer.C():
			default:
			}
		}
		timer.Reset(pause)
	}
}

// steps takes the pod as far as it goes now, and returns when to look at it again.
func (w *Workers) steps(uid types.UID, k *worker) (pause time.Duration, alive bool) {
	for w.ctx.Err() == nil {
		ctx, s, pod, grace := w.next(uid, k)
		var res Result
		var err error
		switch s {
		case stepNothing:
			return w.resync(), true
		case stepForget:
			return 0, w.end(uid, k)
		case stepSync:
			res, err = w.cfg.Syncer.SyncPod(ctx, pod)
		case stepTerminate:
			err = w.cfg.Syncer.SyncTerminatingPod(ctx, pod, grace)
		case stepCleanUp:
			err = w.cfg.Syncer.SyncTerminatedPod(ctx, pod)
		case stepPurge:
			err = w.cfg.Syncer.PurgePod(ctx, pod)
		}
		outdated := ctx.Err() != nil
		changed := w.finish(k, s, res, err, outdated)
		switch {
		case outdated || changed || err == nil && res.Again:
			// Go on with whatever is next.
		case res.Refused:
			return w.refused(k, err), true
		case err != nil:
			return w.retry(res), true
		case res.RetryAfter > 0:
			return res.RetryAfter, true
		default:
			return w.resync(), true
		}
	}
	return 0, false
}

// next is the next step, with a context that ends when the step is out of date; finish ends it too.
func (w *Workers) next(uid types.UID, k *worker) (context.Context, step, *v1.Pod, int64) {
	w.mu.Lock()
	defer w.mu.Unlock()
	m := k.machine
	queue := w.queues[fullName(m.pod)]
	s := m.step(len(queue) > 0 && queue[0] == uid)
	if s == stepNothing || s == stepForget {
		return w.ctx, s, m.pod, m.grace
	}
	ctx, cancel := context.WithCancel(w.ctx)
	k.interrupt = cancel
	return ctx, s, m.pod, m.grace
}

// finish notes how a step went, and tells whether that changed the pod's state.
func (w *Workers) finish(k *worker, s step, res Result, err error, outdated bool) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	k.interrupt()
	k.interrupt = nil
	log := w.logOf(k)
	if outdated && err != nil {
		// It failed because it was told to stop.
		return false
	}
	if err != nil {
		// The same failure again and again is one message.
		if k.err == nil || k.err.Error() != err.Error() {
			log.Error("step failed; it is tried again", "step", s.String(), "error", err, "retry_in", w.retry(res))
		}
		k.err = err
		return false
	}
	if s == stepSync && !res.Refused {
		k.refusals = refusals{}
	}
	if res.RetryAfter == 0 {
		if k.err != nil {
			log.Info("step went well after failures", "step", s.String())
		}
		k.err = nil
	}
	held, before, purged := k.machine.holdsName(), k.machine.state, k.machine.purged
	k.machine.done(s, res.Terminal)
	if held && !k.machine.holdsName() {
		w.release(k.machine.pod)
	}
	if before != k.machine.state {
		log.Debug("worker went on", "state", k.machine.state.String(), "was", before.String())
	}
	return before != k.machine.state || purged != k.machine.purged
}

// logOf is the log for one pod. The caller holds mu.
func (w *Workers) logOf(k *worker) *slog.Logger {
	return w.cfg.Logger.With("pod", k.machine.pod.Namespace+"/"+k.machine.pod.Name, "uid", k.machine.pod.UID)
}
