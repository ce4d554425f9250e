package robustness

import (
	"slices"
	"time"

	podconfigv1 "github.com/podstream/podstream/proto/podconfig/v1"
)

// Run is a History with what should have been, ready for the checkers.
type Run struct {
	History  *History
	lives    []*life
	outcomes []outcome
	passages []*passage
	contents map[*podconfigv1.Pod]content
}

// outcome is what a step should have done and did.
type outcome struct {
	step          int
	did           effect
	before, after uint64
}

// life is the time between two starts of the daemon.
type life struct {
	number int
	start  *Step
	// first is the revision that it started at, last the last one that it should have made.
	first, last uint64
	// instances are those that revisions were published under.
	instances []string
	// moments are what should be true at its revisions, first included.
	moments map[uint64]*moment
	// kept is how many revisions are kept for exact history.
	kept uint64
	// delivered are the sources that delivered a set at some time of this life.
	delivered map[string]bool
}

// moment is one revision.
type moment struct {
	number uint64
	// step is what made it.
	step  *Step
	state *State
}

// read is when the source whose set made the revision was read.
func (m *moment) read() time.Time {
	if m.step.Set == nil {
		return time.Time{}
	}
	return m.step.Set.ReadTime
}

// NewRun works out what should have been.
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

// start starts with what the daemon found in the store. Durable checks whether it should have found more.
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

// storedAt is the state at a revision of the lives so far, or nil if none of them had it.
func (r *Run) storedAt(number uint64) *State {
	for _, l := range slices.Backward(r.lives) {
		if m := l.moments[number]; m != nil {
			return m.state
		}
	}
	return nil
}

// stateAt is the state at a revision of a life, or of those that its store had before; nil if there is none.
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

// set lets the oracle take a set, and returns it as it is afterwards.
func (r *Run) set(i int, step *Step, oracle *model) *model {
	l := r.lives[len(r.lives)-1]
	l.delivered[step.Set.Source] = l.delivered[step.Set.Source] || step.Set.Err == nil
	return r.take(i, step, oracle, func(m *model) effect { return m.apply(*step.Set, l.last+1) })
}

// configure lets the oracle have other sources, and returns it as it is afterwards.
func (r *Run) configure(i int, step *Step, oracle *model) *model {
	l := r.lives[len(r.lives)-1]
	return r.take(i, step, oracle, func(m *model) effect { return m.configure(step.Configure, l.last+1) })
}

// take lets the oracle do a step, and returns it as it is afterwards. A step that was killed leaves it as it is: the
// revision that it may have made is noted, and the next start tells.
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

// lifeOf is the life that the stream belongs to, or nil.
func (r *Run) lifeOf(s *Stream) *life {
	if s.Life < 1 || s.Life > len(r.lives) {
		return nil
	}
	return r.lives[s.Life-1]
}

// unreported returns what happened in a life after revision from, and up to revision to, that the view must receive and
// that no catch-up can have told; or nothing. A catch-up may hold nothing, and then there is no message of it. Of the
// pods in except the consumer may know already.
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

// stayedReady reports whether the source was ready at revision from and at all up to the last one but to. What was
// ready before the restart, which has no moments here, or was removed in between, had to become so again.
func (l *life) stayedReady(source string, from, to uint64) bool {
	for n := from; n == from || n < to; n++ {
		if m := l.moments[n]; m == nil || !m.state.Ready(source) {
			return false
		}
	}
	return true
}
