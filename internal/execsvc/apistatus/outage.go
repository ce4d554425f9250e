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

// outage is the time in which the API server doesn't answer. It begins when two pods, one after the other, get no answer: a single one may
// have a trouble of its own, such as a webhook that hangs, and keeps nobody waiting. One pod at a time tries then, the prober, in turns; the
// others wait. The zero value is none. Writer.mu guards it.
type outage struct {
	// suspect is the pod that got no answer last, while that is no outage yet.
	suspect types.UID
	prober  types.UID
	// failures are the probers'.
	failures int
	// until is when the prober tries next.
	until   time.Time
	waiting map[types.UID]bool
	// told is set from the beginning of an outage until somebody gets an answer.
	told bool
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

// failed notes that a pod got no answer. alone is set if that is its own affair so far. Else prober is the one that tries next, at that time.
// began is set if an outage begins, or goes on after nobody had anything to ask for.
func (o *outage) failed(uid types.UID, now time.Time) (alone, began bool, prober types.UID, at time.Time) {
	if !o.on() {
		if !o.told && (o.suspect == "" || o.suspect == uid) {
			o.suspect = uid
			return true, false, "", time.Time{}
		}
		began, o.told = !o.told, true
		o.prober, o.waiting = uid, map[types.UID]bool{}
	}
	o.waiting[uid] = true
	if uid == o.prober {
		o.failures++
		o.until = now.Add(pause(o.failures, longestOutage))
		o.prober = ""
		for other := range o.waiting {
			if o.prober = other; other != uid {
				break
			}
		}
		delete(o.waiting, o.prober)
	}
	return false, began, o.prober, o.until
}

// over notes that somebody got an answer. It returns the pods that have waited for that, and whether there was an outage.
func (o *outage) over() (waited map[types.UID]bool, told bool) {
	waited, told = o.waiting, o.told
	*o = outage{}
	return waited, told
}

// hurry has the prober try at once, and returns it. Empty: there is no outage.
func (o *outage) hurry() types.UID {
	o.until = time.Time{}
	return o.prober
}

// leave takes out a pod that has nothing to ask for any more. It returns the next prober if it was that; empty: all is as it was.
func (o *outage) leave(uid types.UID) (next types.UID) {
	delete(o.waiting, uid)
	if uid == o.suspect {
		o.suspect = ""
	}
	if uid != o.prober || uid == "" {
		return ""
	}
	for next = range o.waiting {
		delete(o.waiting, next)
		o.prober = next
		return next
	}
	// Nobody is left who could find out whether it is over.
	*o = outage{told: o.told}
	return ""
}
