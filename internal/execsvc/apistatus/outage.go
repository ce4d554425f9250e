package apistatus

import (
	"math/rand/v2"
	"time"

	"k8s.io/apimachinery/pkg/types"
)

const (
	// firstPause and then the doubles of it lie between requests that fail: of one pod up to longestPause, and while the API server doesn't
	// answer up to longestOutage, as only one pod asks then. Up to half of each is added at random.
	firstPause    = 500 * time.Millisecond
	longestPause  = 30 * time.Second
	longestOutage = 4 * time.Second
)

// pause is how long to wait after so many failures, one at least.
func pause(failures int, longest time.Duration) time.Duration {
	d := min(firstPause<<min(failures-1, 10), longest)
	return d + rand.N(d/2) //nolint:gosec // It keeps no secret.
}

// outage is the time in which the API server doesn't answer. One pod tries then, the prober; the others wait. The zero value is none.
// Writer.mu guards it.
type outage struct {
	prober   types.UID
	failures int
	// until is when the prober tries next.
	until   time.Time
	waiting map[types.UID]bool
}

func (o *outage) on() bool { return o.prober != "" }

// admit tells whether the pod may ask now, and if not, when it may; zero: when it is told.
func (o *outage) admit(uid types.UID, now time.Time) (may bool, at time.Time) {
	switch {
	case !o.on():
		return true, time.Time{}
	case uid == o.prober:
		return !now.Before(o.until), o.until
	}
	o.waiting[uid] = true
	return false, time.Time{}
}

// failed notes that a pod got no answer. began is set if the outage begins with that. The prober tries again at the time that is
// returned; zero: another pod is the prober.
func (o *outage) failed(uid types.UID, now time.Time) (began bool, at time.Time) {
	if !o.on() {
		began, o.prober, o.waiting = true, uid, map[types.UID]bool{}
	}
	if uid != o.prober {
		o.waiting[uid] = true
		return false, time.Time{}
	}
	o.failures++
	o.until = now.Add(pause(o.failures, longestOutage))
	return began, o.until
}

// over ends the outage, and returns the pods that have waited for that.
func (o *outage) over() (waited map[types.UID]bool) {
	waited = o.waiting
	*o = outage{}
	return waited
}

// hurry has the prober try at once, and returns it. Empty: there is no outage.
func (o *outage) hurry() types.UID {
	o.until = time.Time{}
	return o.prober
}

// leave takes out a pod that has nothing to ask for any more. It returns the next prober if it was that; empty: all is as it was.
func (o *outage) leave(uid types.UID) (next types.UID) {
	delete(o.waiting, uid)
	if uid != o.prober || uid == "" {
		return ""
	}
	for next = range o.waiting {
		delete(o.waiting, next)
		o.prober = next
		return next
	}
	// Nobody is left who could find out whether it is over.
	o.prober = ""
	return ""
}
