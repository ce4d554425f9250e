package survival

import (
	"fmt"
	"time"

	v1 "k8s.io/api/core/v1"
)

// Once checks that a container never runs twice at one time, and that at each quiet point each desired pod runs
// exactly once or has ended.
func Once(h *History) []error {
	errs := twice(h)
	for i := range h.Looks {
		look := &h.Looks[i]
		if look.Quiet {
			errs = append(errs, onceAt(h, look)...)
			errs = append(errs, unheard(h, look)...)
		}
	}
	return append(errs, overlaps(h)...)
}

// containerKey identifies a container of a pod, through all its runs.
type containerKey struct{ uid, name string }

func running(look *Look) map[containerKey]int {
	out := map[containerKey]int{}
	for _, c := range look.Containers {
		if c.Running {
			out[containerKey{c.UID, c.Name}]++
		}
	}
	return out
}

// unreported is how long a runtime may report that a container runs although its shim has died. containerd 2 answers
// StopContainer at once then, and its first try to handle the container's end fails. It tries again after a second, and
// checks once a second whether one has passed; the rest is for a slow machine.
const unreported = 5 * time.Second

// twice returns a breach for each container that runs more than once, at the first look that shows it.
func twice(h *History) []error {
	var errs []error
	reported := map[containerKey]bool{}
	for i := range h.Looks {
		for key, n := range running(&h.Looks[i]) {
			if n < 2 || reported[key] {
				continue
			}
			if _, died := h.did(key.uid, h.Looks[i].At.Add(-unreported), h.Looks[i].Until, ShimKilled); !died {
				reported[key] = true
				errs = append(errs, podErr(h.Plans[key.uid], "container %s runs %d times at %s", key.name, n, clock(h.Looks[i].At)))
			}
		}
	}
	return errs
}

// firstWord is the time limit from the start of a container, as the runtime reports it, to the first line of
// its diary: machines are slow.
const firstWord = 15 * time.Second

// unheard returns a breach for each container that runs according to the runtime and podexecd, but not
// according to its diary. A container without any line may have been killed before its first.
func unheard(h *History, look *Look) []error {
	alive, spoke := map[containerKey]bool{}, map[containerKey]bool{}
	for _, r := range h.Runs {
		key, limit := containerKey{r.UID, r.Container}, look.Until.Add(firstWord)
		spoke[key] = spoke[key] || !r.Start.After(limit)
		if r.Start.After(limit) {
			continue
		}
		// After harm, a busy runtime reports the end later.
		_, late := h.did(r.UID, look.At.Add(-unreported), look.At, Harm)
		if r.End.IsZero() || r.End.After(look.At) || late && r.End.After(look.At.Add(-unreported)) {
			alive[key] = true
		}
	}
	var errs []error
	for key := range running(look) {
		p := h.Plans[key.uid]
		c, _ := p.container(key.name)
		if c.Fate != Stays || alive[key] {
			continue
		}
		if _, killed := h.did(key.uid, look.At, look.Until.Add(firstWord), Harm); spoke[key] || !killed {
			errs = append(errs, podErr(p, "container %s is reported to run at %s, but its diary shows that it doesn't", key.name, clock(look.At)))
		}
	}
	return errs
}

// overlaps returns a breach for each run that started before an earlier run of the same container had ended,
// according to the earlier run's diary.
func overlaps(h *History) []error {
	var errs []error
	last := map[containerKey]Run{}
	for _, r := range h.Runs {
		key := containerKey{r.UID, r.Container}
		if before, ok := last[key]; ok && (before.End.After(r.Start) || before.Term.After(r.Start)) {
			errs = append(errs, podErr(h.Plans[r.UID], "run %s of container %s starts at %s, when run %s hasn't ended yet",
				r.ID, r.Container, clock(r.Start), before.ID))
		}
		last[key] = r
	}
	return errs
}

// onceAt returns the breaches of desired pods at a look at which all should be in their final state.
func onceAt(h *History, look *Look) []error {
	var errs []error
	runs, ready := running(look), map[string]int{}
	for _, s := range look.Sandboxes {
		if s.Ready {
			ready[s.UID]++
		}
	}
	for uid := range h.desired(look.At) {
		p := h.Plans[uid]
		phase, shown := look.Phases[uid]
		ended := phase == v1.PodSucceeded || phase == v1.PodFailed
		mayEnd := p.only(Ends) || p.Policy == v1.RestartPolicyNever && harmed(h, uid, look.At)
		switch {
		case look.Phases != nil && !shown:
			errs = append(errs, podErr(p, "podexecd doesn't show it"))
		case ended && !mayEnd:
			errs = append(errs, podErr(p, "it is %s and should run", phase))
		case ready[uid] > 1:
			errs = append(errs, podErr(p, "it has %d ready sandboxes", ready[uid]))
		}
		for _, c := range p.Containers {
			n := runs[containerKey{uid, c.Name}]
			switch {
			case n > 1:
				errs = append(errs, podErr(p, "container %s runs %d times", c.Name, n))
			case n > 0 && (ended || c.Fate == Ends):
				errs = append(errs, podErr(p, "container %s still runs", c.Name))
			case n > 0 && ready[uid] == 0:
				// It will be stopped, and the sandbox replaced.
				errs = append(errs, podErr(p, "container %s runs, but its sandbox doesn't", c.Name))
			case n == 0 && (c.Fate == Stays || c.Fate == Settles) && !ended:
				errs = append(errs, podErr(p, "container %s doesn't run; the pod's phase is %q", c.Name, phase))
			}
		}
		if look.Phases != nil && !ended && p.only(Ends) {
			errs = append(errs, podErr(p, "it is %q and should have ended", phase))
		}
	}
	for key := range runs {
		if _, planned := h.Plans[key.uid].container(key.name); !planned {
			errs = append(errs, fmt.Errorf("container %s of pod %s runs, and was never desired", key.name, key.uid))
		}
	}
	return errs
}

// harmed reports whether the pod was harmed before that time.
func harmed(h *History, uid string, at time.Time) bool {
	_, ok := h.did(uid, time.Time{}, at, Harm, RuntimeKilled)
	return ok
}
