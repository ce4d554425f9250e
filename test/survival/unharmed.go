package survival

import (
	"time"

	v1 "k8s.io/api/core/v1"
)

const (
	// tooYoung is how long a container must have run to count as healthy when podexecd dies: before that, its
	// start may have been under way, and a runtime cancels a start when its caller is gone.
	tooYoung = 3 * time.Second
	// unsettled is the same for the death of the runtime, which has to store what it started.
	unsettled = 5 * time.Second
)

// Unharmed checks that a container runs a second time only if it ended by itself and its policy restarts it, or
// if it was harmed.
func Unharmed(h *History) []error {
	var errs []error
	last := map[containerKey]Run{}
	for _, r := range h.Runs {
		key := containerKey{r.UID, r.Container}
		if before, ok := last[key]; ok && !mayRestart(h, before, r) {
			errs = append(errs, podErr(h.Plans[r.UID], "container %s, which ran since %s%s, was started again at %s without a cause",
				r.Container, clock(before.Start), ending(before), clock(r.Start)))
		}
		last[key] = r
	}
	return errs
}

func ending(r Run) string {
	switch {
	case !r.Term.IsZero():
		return " and got SIGTERM at " + clock(r.Term)
	case !r.End.IsZero():
		return " and ended at " + clock(r.End)
	default:
		return ""
	}
}

// mayRestart reports whether the second run has a cause.
func mayRestart(h *History, first, second Run) bool {
	if _, harmed := h.did(first.UID, first.Start.Add(-time.Second), second.Start, Harm); harmed {
		return true
	}
	if _, cut := h.did("", first.Start.Add(-tooYoung), first.Start.Add(tooYoung), AgentKilled, AgentDied); cut && !h.Whole {
		return true
	}
	if _, cut := h.did("", first.Start.Add(-unsettled), first.Start.Add(unsettled), RuntimeKilled); cut {
		return true
	}
	if first.End.IsZero() || !first.Term.IsZero() {
		return false
	}
	p := h.Plans[first.UID]
	if c, _ := p.container(first.Container); c.Init {
		return first.Code != 0 && p.Policy != v1.RestartPolicyNever
	}
	return p.Policy == v1.RestartPolicyAlways || p.Policy == v1.RestartPolicyOnFailure && first.Code != 0
}
