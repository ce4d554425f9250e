package worker

import (
	"context"
	"fmt"
	"log/slog"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"

	"github.com/podstream/podstream/internal/execsvc/pod/podmeta"
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
		// It may have fired meanwhile. Not every Clock drains the channel.
		select {
		case <-timer.C():
		default:
		}
	}
	timer.Reset(pause)
}

// steps runs the steps that are possible now, and returns the pause before the next ones.
func (w *Workers) steps(uid types.UID, k *worker) (pause time.Duration, alive bool) {
	defer w.report(uid)
	for w.ctx.Err() == nil {
		ctx, s, pod, t := w.next(uid, k)
		w.report(uid)
		began := w.cfg.Clock.Now()
		var res Result
		var err error
		switch s {
		case stepNothing:
			return w.rest(k, res, nil), true
		case stepDrop:
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
		w.measure(k.operation, began)
		outdated := ctx.Err() != nil
		changed := w.finish(k, s, res, err, outdated)
		if !outdated && !changed && (err != nil || !res.Again) {
			return w.rest(k, res, err), true
		}
	}
	return 0, false
}

// syncPod cancels a SyncPod that takes too long: a new attempt may succeed.
func (w *Workers) syncPod(ctx context.Context, pod *v1.Pod) (Result, error) {
	limit := w.cfg.SyncTimeout + time.Duration(min(podmeta.GracePeriod(pod), longestGrace))*time.Second
	late := fmt.Errorf("the sync took longer than %v and was canceled", limit)
	ctx, cancel := context.WithTimeoutCause(ctx, limit, late)
	defer cancel()
	res, err := w.cfg.Syncer.SyncPod(ctx, pod)
	if err != nil && context.Cause(ctx) == late { //nolint:errorlint // It is this call's own.
		err = fmt.Errorf("%w: %w", late, err)
	}
	return res, err
}

// next returns the next step, with a context that ends when the step is out of date; finish ends it too.
func (w *Workers) next(uid types.UID, k *worker) (context.Context, step, *v1.Pod, Termination) {
	w.mu.Lock()
	defer w.mu.Unlock()
	m := k.machine
	queue := w.queues[podmeta.FullName(m.pod)]
	s := m.step(len(queue) > 0 && queue[0] == uid)
	k.operation = w.operation(k, s)
	if s == stepNothing || s == stepDrop {
		return w.ctx, s, m.pod, m.end
	}
	ctx, cancel := context.WithCancel(w.ctx)
	k.interrupt = cancel
	return ctx, s, m.pod, m.end
}

// finish records the result of a step, and reports whether the state has changed.
func (w *Workers) finish(k *worker, s step, res Result, err error, outdated bool) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	k.interrupt()
	k.interrupt = nil
	log := w.logOf(k)
	if outdated && err != nil {
		// It failed because its context ended.
		return false
	}
	if err != nil {
		w.logFailure(log, k, s, res, err)
		k.err = err
		return false
	}
	if s == stepSync && !res.Rejected {
		k.rejections = rejections{}
	}
	switch {
	case res.RetryAfter > 0:
	case res.Waiting:
		k.err = nil
	default:
		if k.err != nil || k.logged != "" {
			log.Info("retry succeeded", "step", s.String())
		}
		k.succeeded()
	}
	held, before, purged := k.machine.holdsName(), k.machine.state, k.machine.purged
	k.machine.done(w.cfg.Clock.Now(), s, res)
	if held && !k.machine.holdsName() {
		w.release(k.machine.pod)
	}
	if before != k.machine.state {
		k.rested()
		log.Debug("worker state changed", "state", k.machine.state.String(), "was", before.String())
	}
	return before != k.machine.state || purged != k.machine.purged
}

// succeeded clears the failures. The caller holds mu.
func (k *worker) succeeded() { k.err, k.logged, k.transientSince = nil, "", time.Time{} }

// logFailure logs a failed step. A failure that repeats is logged once. The caller holds mu.
func (w *Workers) logFailure(log *slog.Logger, k *worker, s step, res Result, err error) {
	now := w.cfg.Clock.Now()
	switch {
	case !res.Transient:
		k.transientSince = time.Time{}
	case k.transientSince.IsZero():
		k.transientSince = now
	}
	args := []any{"step", s.String(), "error", err, "retry_in", w.retry(res, err)}
	switch {
	case err.Error() == k.logged:
	case res.Transient && now.Sub(k.transientSince) < transientTime:
		if errorText(k.err) != err.Error() {
			log.Info("step failed with a transient error; retrying", args...)
		}
	default:
		log.Error("step failed; retrying", args...)
		k.logged = err.Error()
	}
}

// logOf returns the logger of one pod. The caller holds mu.
func (w *Workers) logOf(k *worker) *slog.Logger {
	return w.cfg.Logger.With("pod", podmeta.LogName(k.machine.pod), "uid", k.machine.pod.UID)
}
