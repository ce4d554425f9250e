package history

import "sync"

// wide are the Readers of all revisions. A revision wakes each of them. Its lock is separate from History.mu, so that
// those that are woken first can read while others are woken.
type wide struct {
	mu sync.Mutex
	// first are those that each revision wakes at once, and later those that are woken by group.
	first map[*Reader]struct{}
	later [laterGroups]map[*Reader]struct{}
}

func newWide() *wide {
	w := &wide{first: map[*Reader]struct{}{}}
	for i := range w.later {
		w.later[i] = map[*Reader]struct{}{}
	}
	return w
}

func (w *wide) set(r *Reader) map[*Reader]struct{} {
	if r.later {
		return w.later[r.group]
	}
	return w.first
}

func (w *wide) join(r *Reader) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.set(r)[r] = struct{}{}
}

func (w *wide) leave(r *Reader) {
	w.mu.Lock()
	defer w.mu.Unlock()
	delete(w.set(r), r)
}

// wake wakes one set of Readers.
func (w *wide) wake(set map[*Reader]struct{}) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for r := range set {
		r.Wake()
	}
}
