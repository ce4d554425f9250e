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
	// quietPause is the time after a failure in which Sync starts no new attempt: the kubelet's relist period.
	quietPause = time.Second
	// transientTime is how long a transient failure may last before it is logged as an error.
	transientTime = 10 * time.Second
)

// rest returns the pause after a step that leaves nothing to do at once. It sets the worker's retry, waitsFor and
// quiet.
func (w *Workers) rest(k *worker, res Result, err error) time.Duration {
	w.mu.Lock()
	defer w.mu.Unlock()
	k.rested()
	pause, waitsFor := w.pause(k, res, err)
	if waitsFor != "" {
		k.retry, k.waitsFor = w.cfg.Clock.Now().Add(pause), waitsFor
	}
	if waitsFor == waitsForBackoff {
		// As in the kubelet, a resync is not delayed by a long backoff.
		pause = min(pause, w.resync())
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

// quietFor returns the time until Sync starts a new attempt again.
func (w *Workers) quietFor(k *worker) time.Duration {
	w.mu.Lock()
	defer w.mu.Unlock()
	return min(k.quiet.Sub(w.cfg.Clock.Now()), quietPause)
}

// rested clears what the worker waited for. The caller holds mu.
func (k *worker) rested() { k.retry, k.waitsFor = time.Time{}, "" }

// pause returns the time until the next step, and what the pod waits for; "" if for nothing. The caller holds mu.
func (w *Workers) pause(k *worker, res Result, err error) (time.Duration, string) {
	switch {
	case res.Rejected:
		return w.rejected(k, err), waitsForAdmission
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

// retry returns the pause after a failure. A longer backoff of a container doesn't make it longer.
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

// rejected returns the pause before the next SyncPod of a rejected pod. err is the error of the step. The caller holds
// mu.
func (w *Workers) rejected(k *worker, err error) time.Duration {
	first := k.rejections == rejections{}
	pause := k.rejections.next(w.cfg.Clock.Now(), w.cfg.RejectedFirst, w.cfg.RejectedLongest)
	if first && err == nil {
		w.logOf(k).Info("pod was rejected; retrying after growing pauses", "retry_in", pause, "at_most", w.cfg.RejectedLongest)
	}
	return pause
}

// rejections are the pauses of a pod that is rejected repeatedly. The zero value: it was not rejected yet.
type rejections struct {
	// pause is the last pause, which ends at until.
	pause time.Duration
	until time.Time
}

// next returns the pause after a rejection: first, and then twice the last pause, up to longest. If the pod was synced
// before the end of its pause, it waits for the rest of it.
func (r *rejections) next(now time.Time, first, longest time.Duration) time.Duration {
	if !now.Before(r.until) {
		r.pause = min(max(2*r.pause, first), longest)
		r.until = now.Add(r.pause)
	}
	return min(r.until.Sub(now), r.pause)
}

// sameManifest reports whether an update can't change a rejection: only the status differs, for example.
func sameManifest(a, b *v1.Pod) bool {
	return equality.Semantic.DeepEqual(a.Spec, b.Spec) && equality.Semantic.DeepEqual(a.Labels, b.Labels) &&
		equality.Semantic.DeepEqual(a.Annotations, b.Annotations)
}
