package survival

import "time"

const (
	// early is how much earlier than its grace period a container may seem to end: the periods are whole
	// seconds, a look takes time, and a process on a busy machine needs time to record its SIGTERM.
	early = 1500 * time.Millisecond
	// late is how much later it may be gone: a failed attempt is repeated after 10 s, machines are slow, and so are
	// relists.
	late = 15 * time.Second
)

// Grace checks that a container that received SIGTERM has its grace period from then on, and not much longer,
// even if a daemon or the runtime dies or is away before or meanwhile.
func Grace(h *History) []error {
	var errs []error
	var seen []sighting
	for i := range h.Looks {
		seen = append(seen, sighting{h.Looks[i].At, running(&h.Looks[i])})
	}
	for _, r := range h.Runs {
		if err := graceOf(h, r, seen); err != nil {
			errs = append(errs, err)
		}
	}
	return errs
}

// sighting is the set of containers that were seen to run at a time.
type sighting struct {
	at      time.Time
	running map[containerKey]int
}

func graceOf(h *History, r Run, seen []sighting) error {
	p := h.Plans[r.UID]
	c, planned := p.container(r.Container)
	if r.Term.IsZero() || !planned || len(seen) == 0 {
		return nil
	}
	due, gone, end := r.Term.Add(p.Grace), goneAt(seen, r), seen[len(seen)-1].at
	if d, ok := h.did(r.UID, time.Time{}, r.Term, Drop); ok && c.Sidecar {
		// The other containers may have used up the grace period, which all share.
		due = d.At.Add(p.Grace)
	}
	if _, harmed := h.did(r.UID, r.Term.Add(-time.Second), latest(due, gone), Harm, RuntimeKilled); harmed {
		return nil
	}
	switch ownEnd := r.Term.Add(c.Takes); {
	case !r.End.IsZero():
		return nil
	case c.Takes >= 0 && ownEnd.Add(early).Before(due) && ownEnd.Add(early).Before(end):
		return podErr(p, "container %s received SIGTERM at %s and would have ended at %s by itself, within its grace period of %v, but was killed; gone %s",
			c.Name, clock(r.Term), clock(ownEnd), p.Grace, clock(gone))
	case !gone.IsZero() && gone.Add(early).Before(due) && (c.Takes < 0 || gone.Add(early).Before(ownEnd)):
		return podErr(p, "container %s, which had until %s, received SIGTERM at %s and was gone at %s, before it had ended by itself",
			c.Name, clock(due), clock(r.Term), clock(gone))
	case overdue(h, r, p.Grace, gone, end):
		return podErr(p, "container %s, with a grace period of %v, received SIGTERM at %s and still ran %v after it should have been gone",
			c.Name, p.Grace, clock(r.Term), late)
	}
	return nil
}

// overdue reports whether the run went on too long after its grace period. While podexecd is away, no container
// can be ended.
func overdue(h *History, r Run, grace time.Duration, gone, end time.Time) bool {
	from := r.Term
	if d, ok := h.did("", r.Term, end, AgentStarted, RuntimeStarted); ok {
		from = d.At
	}
	due := from.Add(grace + late)
	if gone.IsZero() {
		gone = end
	}
	return gone.After(due)
}

// goneAt returns the time of the first look after the SIGTERM at which the container no longer ran, or zero.
func goneAt(seen []sighting, r Run) time.Time {
	for _, s := range seen {
		if s.at.After(r.Term) && s.running[containerKey{r.UID, r.Container}] == 0 {
			return s.at
		}
	}
	return time.Time{}
}

func latest(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}
