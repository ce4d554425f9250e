package robustness

import (
	"slices"
	"time"

	podconfigv1 "github.com/podstream/podstream/proto/podconfig/v1"
)

// Run is a History with the expected states, ready for the checkers.
type Run struct {
	History  *History
	lives    []*life
	outcomes []outcome
	passages []*passage
	contents map[*podconfigv1.Pod]content
	// silences: the source's place may be silent for a time. A consumer that subscribes then gets RESTORE in place of ADD.
	silences bool
}

// outcome is the expected and the actual result of a step.
type outcome struct {
	step          int
	did           effect
	before, after uint64
}

// life is the time between two starts of the daemon.
type life struct {
	number int
	start  *Step
	// first is the revision at which it started. last is the last one that it should have made.
	first, last uint64
	// instances are the instances under which revisions were published.
	instances []string
	// moments are the expected states at its revisions, including first.
	moments map[uint64]*moment
	// kept is the number of revisions that are kept for exact history.
	kept uint64
	// delivered are the sources that delivered a set during this life.
	delivered map[string]bool
}

// moment is one revision.
type moment struct {
	number uint64
	// step is the step that made it.
	step  *Step
	state *State
}

// read returns the time at which the source of the revision was read.
func (m *moment) read() time.Time {
	if m.step.Set == nil {
		return time.Time{}
	}
	return m.step.Set.ReadTime
}

// NewRun computes the expected states.
func NewRun(h *History) *Run {
	r := &Run{History: h, contents: map[*podconfigv1.Pod]content{}}
	var oracle *model
	for i := range h.Steps {
		step := &h.Steps[i]
		if step.Start != nil {
			oracle = r.start(step)
			continue
		}
		if step.Set != nil && oracle != nil {
			oracle = r.set(i, step, oracle)
		}
		if step.Configure != nil && oracle != nil {
			oracle = r.configure(i, step, oracle)
		}
	}
	for _, c := range h.Consumers {
		r.follow(c)
	}
	return r
}

// start starts an oracle with what the daemon found in the store. Durable checks whether the store should have
// had more.
func (r *Run) start(step *Step) *model {
	var stored *State
	if step.Start.Kept {
		stored = r.storedAt(step.Revision)
	}
	m := newModel(step.Start.Sources, stored)
	l := &life{
		number: len(r.lives) + 1, start: step, first: step.Revision, last: step.Revision, instances: []string{step.Instance},
		moments: map[uint64]*moment{}, kept: r.History.revisions(), delivered: map[string]bool{},
	}
	l.moments[l.first] = &moment{number: l.first, step: step, state: m.state()}
	r.lives = append(r.lives, l)
	return m
}

// storedAt returns the state at a revision of the lives so far, or nil if there is none.
func (r *Run) storedAt(number uint64) *State {
	for _, l := range slices.Backward(r.lives) {
		if m := l.moments[number]; m != nil {
			return m.state
		}
	}
	return nil
}

// stateAt returns the state at a revision of a life, or of a life before it with the same store, or nil if there
// is none.
func (r *Run) stateAt(l *life, number uint64) *State {
	for ; ; l = r.lives[l.number-2] {
		if m := l.moments[number]; m != nil {
			return m.state
		}
		if !l.start.Start.Kept || l.number == 1 {
			return nil
		}
	}
}

// set applies a set to the oracle, and returns the oracle after it.
func (r *Run) set(i int, step *Step, oracle *model) *model {
	l := r.lives[len(r.lives)-1]
	l.delivered[step.Set.Source] = l.delivered[step.Set.Source] || step.Set.Err == nil
	return r.take(i, step, oracle, func(m *model) effect { return m.apply(*step.Set, l.last+1) })
}

// configure changes the sources of the oracle, and returns the oracle after it.
func (r *Run) configure(i int, step *Step, oracle *model) *model {
	l := r.lives[len(r.lives)-1]
	return r.take(i, step, oracle, func(m *model) effect { return m.configure(step.Configure, l.last+1) })
}

// take applies a step to the oracle, and returns the oracle after it. If the daemon was killed during the step,
// the oracle doesn't change: the revision that the step may have made is recorded, and the next start shows
// whether it exists.
func (r *Run) take(i int, step *Step, oracle *model, do func(*model) effect) *model {
	l := r.lives[len(r.lives)-1]
	next := oracle
	open := step.Killed || step.Ended.IsZero()
	if open {
		next = oracle.clone()
	}
	did := do(next)
	if open {
		if did != silent {
			l.moments[l.last+1] = &moment{number: l.last + 1, step: step, state: next.state()}
		}
		return oracle
	}
	r.outcomes = append(r.outcomes, outcome{step: i, did: did, before: l.last, after: step.Revision})
	if !slices.Contains(l.instances, step.Instance) {
		l.instances = append(l.instances, step.Instance)
	}
	if step.Revision > l.last {
		l.last = step.Revision
		l.moments[l.last] = &moment{number: l.last, step: step, state: next.state()}
	}
	return next
}

// lifeOf returns the life that the stream belongs to, or nil.
func (r *Run) lifeOf(s *Stream) *life {
	if s.Life < 1 || s.Life > len(r.lives) {
		return nil
	}
	return r.lives[s.Life-1]
}

// unreported returns which changes after revision from and up to revision to of a life the consumer must receive,
// and can't have received in a catch-up; or "". An empty catch-up has no message. The consumer may already know
// the changes of the pods in except.
func (l *life) unreported(v *view, from, to uint64, except map[string]bool) (uint64, string) {
	if l.moments[from] == nil || l.moments[to] == nil {
		return 0, ""
	}
	if to > from+l.kept {
		return to, v.differs(l.moments[from].state, l.moments[to].state, except)
	}
	for n := from + 1; n <= to; n++ {
		before, after := l.moments[n-1], l.moments[n]
		if before == nil || after == nil {
			continue
		}
		if what := v.differs(before.state, after.state, except); what != "" {
			return n, what
		}
	}
	return 0, ""
}

// stayedReady reports whether the source was ready at revision from and at all revisions before to. A source
// that was ready before the restart, which has no moments here, or that was removed meanwhile, had to become
// ready again.
func (l *life) stayedReady(source string, from, to uint64) bool {
	for n := from; n == from || n < to; n++ {
		if m := l.moments[n]; m == nil || !m.state.Ready(source) {
			return false
		}
	}
	return true
}
