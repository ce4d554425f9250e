package survival

import "time"

// unwritten is how long podexecd may take to store a status that it shows: it doesn't wait for the disk, which
// may be busy.
const unwritten = 2 * time.Second

// Steady checks that a pod that is ready, and whose containers all stay, remains ready unless it is harmed or
// dropped. A change between two observations counts too: the status has its time.
func Steady(h *History) []error {
	var errs []error
	// last is the first status of each pod that shows the present state.
	last := map[string]Status{}
	for _, s := range h.Statuses {
		before, seen := last[s.UID]
		if seen && s.Ready == before.Ready && s.Since.Equal(before.Since) {
			continue
		}
		last[s.UID] = s
		p := h.Plans[s.UID]
		if !seen || !before.Ready || !p.only(Stays) {
			continue
		}
		if _, dropped := h.did(s.UID, time.Time{}, s.At, Drop); dropped {
			continue
		}
		if _, harmed := h.did(s.UID, before.Since, s.At, Harm); harmed {
			continue
		}
		if h.mayBeUnwritten(before) {
			continue
		}
		if s.Ready {
			errs = append(errs, podErr(p, "it was ready since %s, but at %s podexecd reports ready since %s", clock(before.Since), clock(s.At), clock(s.Since)))
		} else {
			errs = append(errs, podErr(p, "it was ready since %s and is no longer ready at %s", clock(before.Since), clock(s.At)))
		}
	}
	return errs
}

// mayBeUnwritten reports whether podexecd died so soon after it sent the status that it may not have stored it. A status
// that was sent just before the kill arrives after it.
func (h *History) mayBeUnwritten(s Status) bool {
	last, some := h.did("", time.Time{}, s.At, AgentKilled, AgentDied, AgentStarted)
	if some && last.Kind != AgentStarted {
		return true
	}
	_, died := h.did("", s.At, s.At.Add(unwritten), AgentKilled, AgentDied)
	return died
}
