package survival

import (
	"fmt"
	"time"
)

// Clean checks that at each quiet point nothing is left of pods that aren't desired.
func Clean(h *History) []error {
	var errs []error
	for i := range h.Looks {
		if look := &h.Looks[i]; look.Quiet {
			errs = append(errs, cleanAt(h, look)...)
		}
	}
	return errs
}

func cleanAt(h *History, look *Look) []error {
	var errs []error
	desired, ids := h.desired(look.At), map[string]bool{}
	left := func(uid, format string, args ...any) {
		errs = append(errs, fmt.Errorf("at %s, pod %s (%s) isn't desired, but this is left: %s",
			clock(look.At), h.Plans[uid].Name, uid, fmt.Sprintf(format, args...)))
	}
	for _, s := range look.Sandboxes {
		ids[s.ID] = true
		if !desired[s.UID] {
			left(s.UID, "sandbox %s", s.ID)
		}
	}
	for _, c := range look.Containers {
		ids[c.ID] = true
		if !desired[c.UID] {
			left(c.UID, "container %s %s", c.Name, c.ID)
		}
	}
	for _, t := range look.Traces {
		switch {
		case t.UID != "" && !desired[t.UID] && !t.Own:
			left(t.UID, "%s", t.Path)
		case t.ID != "" && !ids[t.ID] && !t.Forgotten && !dropped(h, t, look.At):
			errs = append(errs, fmt.Errorf("at %s, left by a sandbox or container that no longer exists: %s", clock(look.At), t.Path))
		}
	}
	return errs
}

// dropped reports whether a process other than podexecd may have left the trace of a container that no longer
// exists. If the runtime lost a container of a desired pod, podexecd's garbage collection removes the rest
// later. A runtime or shim that dies during a start leaves a cgroup for good.
func dropped(h *History, t Trace, at time.Time) bool {
	kinds := []Kind{Harm}
	if t.Own {
		kinds = append(kinds, RuntimeKilled)
	}
	_, ok := h.did(t.UID, time.Time{}, at, kinds...)
	return ok && t.UID != ""
}
