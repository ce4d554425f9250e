package worker

import (
	"context"
	"fmt"
	"log/slog"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"
)

// run is a worker's goroutine.
func (w *Workers) run(uid types.UID, k *worker) {
	timer := w.cfg.Clock.NewTimer(w.cfg.Resync)
	defer timer.Stop()
	for {
		select {
		case <-k.wake:
		case <-k.look:
			if left := w.quietFor(k); left > 0 {
				reset(timer, left)
				continue
			}
		case <-timer.C():
		case <-w.ctx.Done():
			return
		}
		pause, alive := w.steps(uid, k)
		if !alive {
			return
		}
		reset(timer, pause)
	}
}

func reset(timer clock.Timer, pause time.Duration) {
	if !timer.Stop() {
		// It may have fired meanwhile, and not every Clock takes that back.
		select {
		case <-timer.C():
		default:
		}
	}
	timer.Reset(pause)
}

// steps takes the pod as far as it goes now, and returns when to look at it again.
func (w *Workers) steps(uid types.UID, k *worker) (pause time.Duration, alive bool) {
	defer w.tell(uid)
	for w.ctx.Err() == nil {
		ctx, s, pod, t := w.next(uid, k)
		w.tell(uid)
		var res Result
		var err error
		switch s {
		case stepNothing:
			return w.rest(k, res, nil), true
		case stepForget:
			return 0, w.end(uid, k)
		case stepSync:
			res, err = w.syncPod(ctx, pod)
		case stepTerminate:
			err = w.cfg.Syncer.SyncTerminatingPod(ctx, pod, t)
		case stepCleanUp:
			err = w.cfg.Syncer.SyncTerminatedPod(ctx, pod, t)
		case stepPurge:
			err = w.cfg.Syncer.PurgePod(ctx, pod)
		}
		outdated := ctx.Err() != nil
		changed := w.finish(k, s, res, err, outdated)
		if !outdated && !changed && (err != nil || !res.Again) {
			return w.rest(k, res, err), true
		}
	}
	return 0, false
}

// syncPod breaks off a SyncPod that takes too long: something hangs, and a new try may get on.
func (w *Workers) syncPod(ctx context.Context, pod *v1.Pod) (Result, error) {
	limit := w.cfg.SyncTimeout + time.Duration(min(graceOf(pod), longestGrace))*time.Second
	late := fmt.Errorf("the sync took longer than %v and was broken off", limit)
	ctx, cancel := context.WithTimeoutCause(ctx, limit, late)
	defer cancel()
	res, err := w.cfg.Syncer.SyncPod(ctx, pod)
	if err != nil && context.Cause(ctx) == late { //nolint:errorlint // It is this call's own.
		err = fmt.Errorf("%w: %w", late, err)
	}
	return res, err
}

// next is the next step, with a context that ends when the step is out of date; finish ends it too.
func (w *Workers) next(uid types.UID, k *worker) (context.Context, step, *v1.Pod, Termination) {
	w.mu.Lock()
	defer w.mu.Unlock()
	m := k.machine
	queue := w.queues[fullName(m.pod)]
	s := m.step(len(queue) > 0 && queue[0] == uid)
	if s == stepNothing || s == stepForget {
		return w.ctx, s, m.pod, m.end
	}
	ctx, cancel := context.WithCancel(w.ctx)
	k.interrupt = cancel
	return ctx, s, m.pod, m.end
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
		w.logFailure(log, k, s, res, err)
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
		k.wentWell()
	}
	held, before, purged := k.machine.holdsName(), k.machine.state, k.machine.purged
	k.machine.done(w.cfg.Clock.Now(), s, res)
	if held && !k.machine.holdsName() {
		w.release(k.machine.pod)
	}
	if before != k.machine.state {
		k.rested()
		log.Debug("worker went on", "state", k.machine.state.String(), "was", before.String())
	}
	return before != k.machine.state || purged != k.machine.purged
}

// wentWell forgets failures. The caller holds mu.
func (k *worker) wentWell() { k.err, k.logged, k.passing = nil, "", time.Time{} }

// logFailure logs a failed step: the same failure again and again is one message. The caller holds mu.
func (w *Workers) logFailure(log *slog.Logger, k *worker, s step, res Result, err error) {
	now := w.cfg.Clock.Now()
	switch {
	case !res.Passing:
		k.passing = time.Time{}
	case k.passing.IsZero():
		k.passing = now
	}
	args := []any{"step", s.String(), "error", err, "retry_in", w.retry(res, err)}
	switch {
	case err.Error() == k.logged:
	case res.Passing && now.Sub(k.passing) < passingTime:
		if errorText(k.err) != err.Error() {
			log.Info("step waits for what comes in a moment, mostly", args...)
		}
	default:
		log.Error("step failed; it is tried again", args...)
		k.logged = err.Error()
	}
}

// logOf is the log for one pod. The caller holds mu.
func (w *Workers) logOf(k *worker) *slog.Logger {
	return w.cfg.Logger.With("pod", k.machine.pod.Namespace+"/"+k.machine.pod.Name, "uid", k.machine.pod.UID)
}
