package apistatus

import (
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
)

const (
	// The pause between failed requests doubles from firstPause. Its limit is longestPause for one pod, and
	// longestOutage while the API server doesn't answer, because only one pod sends requests then. Up to half of it
	// is added at random.
	firstPause    = 500 * time.Millisecond
	longestPause  = 30 * time.Second
	longestOutage = 4 * time.Second
)

// pause returns the pause after that number of failures, at least one.
func pause(failures int, longest time.Duration) time.Duration {
	const enough = 10 // doublings up to the longest pause
	b := wait.Backoff{Duration: firstPause, Factor: 2, Jitter: 0.5, Steps: enough, Cap: longest}
	for range min(failures, enough) - 1 {
		b.Step()
	}
	return b.Step()
}

// outage is a time in which the API server doesn't answer. It begins when two pods, one after the other, get no
// answer: a single pod may have its own problem, such as a webhook that hangs, and must not block the others. During
// an outage one pod at a time, the prober, sends requests, in rotation; the others wait. The zero value is no
// outage. Writer.mu guards it.
type outage struct {
	// suspect is the pod that got no answer last, while that is no outage yet.
	suspect types.UID
	prober  types.UID
	// failures is the number of failed attempts of probers.
	failures int
	// until is the time of the prober's next attempt.
	until   time.Time
	waiting map[types.UID]bool
	// reported is set from the beginning of an outage until a request is answered.
	reported bool
}

func (o *outage) on() bool { return o.prober != "" }

// admit reports whether the pod may send a request now, and if not, when; zero: when it is queued again.
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

// failed records that a pod got no answer. alone is set if only this pod is affected so far. Otherwise prober is the
// pod that tries next, at that time. began is set if an outage begins, or continues after a time without requests.
func (o *outage) failed(uid types.UID, now time.Time) (alone, began bool, prober types.UID, at time.Time) {
	if !o.on() {
		if !o.reported && (o.suspect == "" || o.suspect == uid) {
			o.suspect = uid
			return true, false, "", time.Time{}
		}
		began, o.reported = !o.reported, true
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

// over records that a request was answered. It returns the pods that have waited for that, and whether there was an
// outage.
func (o *outage) over() (waited map[types.UID]bool, reported bool) {
	waited, reported = o.waiting, o.reported
	*o = outage{}
	return waited, reported
}

// hurry makes the prober try at once, and returns it. Empty: there is no outage.
func (o *outage) hurry() types.UID {
	o.until = time.Time{}
	return o.prober
}

// leave removes a pod that has no request any more. If it was the prober, it returns the next one; empty: nothing
// changes.
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
	// No pod is left that could end the outage.
	*o = outage{reported: o.reported}
	return ""
}
