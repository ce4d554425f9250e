package worker

import (
	"errors"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/util/wait"
)

const (
	// networkPause is the pause of a pod that waits for the node's network, as in the kubelet.
	networkPause = time.Second
	// quietPause is for how long a failure isn't followed by another try for the sake of what the runtime tells: as long as the kubelet
	// takes to hear of it.
	quietPause = time.Second
	// passingTime is how long a failure may last that is over in a moment, mostly.
	passingTime = 10 * time.Second
)

// rest is when to look at the pod again after a step that leaves nothing to do at once. What the worker waits for meanwhile is noted.
func (w *Workers) rest(k *worker, res Result, err error) time.Duration {
	w.mu.Lock()
	defer w.mu.Unlock()
	k.rested()
	pause, waitsFor := w.pause(k, res, err)
	if waitsFor != "" {
		k.retry, k.waitsFor = w.cfg.Clock.Now().Add(pause), waitsFor
	}
	if res.WakeAfter > 0 {
		pause = min(pause, res.WakeAfter)
	}
	k.quiet = time.Time{}
	if err != nil {
		k.quiet = w.cfg.Clock.Now().Add(min(pause, quietPause))
	}
	return pause
}

// quietFor is how long it is until Sync is followed again.
func (w *Workers) quietFor(k *worker) time.Duration {
	w.mu.Lock()
	defer w.mu.Unlock()
	return k.quiet.Sub(w.cfg.Clock.Now())
}

// rested forgets what the worker waited for. The caller holds mu.
func (k *worker) rested() { k.retry, k.waitsFor = time.Time{}, "" }

// pause is the time until the pod is looked at again, and what it waits for meanwhile: "" if for nothing. The caller holds mu.
func (w *Workers) pause(k *worker, res Result, err error) (time.Duration, string) {
	switch {
	case res.Refused:
		return w.refused(k, err), waitsForOffer
	case errors.Is(err, ErrNetworkNotReady):
		return w.retry(res, err), waitsForNetwork
	case err != nil:
		return w.retry(res, err), waitsForRetry
	case res.RetryAfter > 0:
		return res.RetryAfter, waitsForBackoff
	}
	return w.resync(), ""
}

func (w *Workers) resync() time.Duration { return wait.Jitter(w.cfg.Resync, 0.5) }

// retry is the pause after a failure: what failed isn't made to wait for the long backoff of something else.
func (w *Workers) retry(res Result, err error) time.Duration {
	pause := w.cfg.Retry
	if errors.Is(err, ErrNetworkNotReady) {
		pause = min(pause, networkPause)
	}
	if res.RetryAfter > 0 {
		pause = min(pause, res.RetryAfter)
	}
	return pause
}

// refused is the pause before the pod is offered again. err is the step's. The caller holds mu.
func (w *Workers) refused(k *worker, err error) time.Duration {
	first := k.refusals == refusals{}
	pause := k.refusals.next(w.cfg.Clock.Now(), w.cfg.RefusedFirst, w.cfg.RefusedLongest)
	if first && err == nil {
		w.logOf(k).Info("pod was refused; it is offered again after growing pauses", "retry_in", pause, "at_most", w.cfg.RefusedLongest)
	}
	return pause
}

// refusals are the pauses of a pod that is refused again and again. The zero value: it wasn't refused yet.
type refusals struct {
	// pause is the last one, which ends at until.
	pause time.Duration
	until time.Time
}

// next is when to offer the pod again that was just refused: after first, and then after twice the last pause, up to longest. A pod that
// was looked at before its time, because something else happened, waits for the rest of it.
func (r *refusals) next(now time.Time, first, longest time.Duration) time.Duration {
	if !now.Before(r.until) {
		r.pause = min(max(2*r.pause, first), longest)
		r.until = now.Add(r.pause)
	}
	return r.until.Sub(now)
}

// sameManifest tells whether an update brings nothing that a refusal could hang on: a status, say, or the same pod once more.
func sameManifest(a, b *v1.Pod) bool {
	return equality.Semantic.DeepEqual(a.Spec, b.Spec) && equality.Semantic.DeepEqual(a.Labels, b.Labels) &&
		equality.Semantic.DeepEqual(a.Annotations, b.Annotations)
}
