package cluster

import (
	"log/slog"
	"sync"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
)

// table is what the API server has of one kind of objects, cut down to what is needed of each.
type table[T any] struct {
	// what is the kind's name, for people.
	what string
	// cut is what is kept of an object; false: nothing is.
	cut  func(runtime.Object) (T, bool)
	wake func(types.UID)
	log  *slog.Logger
	// awaits tells whether a pod that has found this is to be woken by the next change.
	awaits func(found []T, known knowledge) bool
	// memory is what it had in an earlier life, and is to have in the next one. Nil: nothing is remembered.
	memory *memory[T]
	// recalling is done once, as what was remembered changes only by what is read.
	recalling sync.Once
	// changed has something once there is something new to remember.
	changed chan struct{}

	mu    sync.Mutex
	known knowledge
	// why is what has kept it from being read at the last try; nil after a good one.
	why error
	// rows are by namespace and name, once they were read. Before that there is only what was recalled.
	rows     map[types.NamespacedName]row[T]
	recalled []T
	// asked are the pods to be woken by the next change.
	asked map[types.UID]bool
}

// knowledge is where a table's content comes from.
type knowledge int

const (
	// unread: there is none.
	unread knowledge = iota
	// remembered: from an earlier life, as the API server can't be read.
	remembered
	// read: from the API server, all of it at least once.
	read
)

// row is one object.
type row[T any] struct {
	version string
	kept    T
}

func newTable[T any](what string, cut func(runtime.Object) (T, bool), cfg Config) *table[T] {
	return &table[T]{
		what: what, cut: cut, wake: cfg.Wake, log: cfg.Logger, changed: make(chan struct{}, 1),
		rows: map[types.NamespacedName]row[T]{}, asked: map[types.UID]bool{},
	}
}

// find returns the objects that match, in no order, and where they are known from.
func (t *table[T]) find(pod types.UID, match func(T) bool) (found []T, known knowledge) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, kept := range t.recalled {
		if match(kept) {
			found = append(found, kept)
		}
	}
	for _, r := range t.rows {
		if match(r.kept) {
			found = append(found, r.kept)
		}
	}
	if t.awaits(found, t.known) {
		t.asked[pod] = true
	}
	return found, t.known
}

func (t *table[T]) forget(pod types.UID) {
	t.mu.Lock()
	defer t.mu.Unlock()
	delete(t.asked, pod)
}

// failing is why nothing can be read now, as far as it is known.
func (t *table[T]) failing() error {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.why
}

// tell notes how the last try went, and logs it if it is news. While nothing was read, a bad one has what is remembered count.
func (t *table[T]) tell(err error) {
	t.mu.Lock()
	before := t.why
	t.why = err
	t.mu.Unlock()
	switch {
	case err == nil && before != nil:
		t.log.Info("the API server can be read again", "objects", t.what)
	case err != nil && (before == nil || reason(before) != reason(err)):
		t.log.Warn("the API server can't be read", "objects", t.what, "error", err)
	}
	if err != nil {
		t.recall()
	}
}

// replace puts all that there is in place of what was there.
func (t *table[T]) replace(rows map[types.NamespacedName]row[T]) {
	t.change(func() bool {
		changed := t.known != read || len(rows) != len(t.rows)
		for name, r := range rows {
			before, ok := t.rows[name]
			changed = changed || !ok || before.version != r.version
		}
		t.known, t.rows, t.recalled = read, rows, nil
		return changed
	})
}

// put takes in an object that is new or has changed.
func (t *table[T]) put(name types.NamespacedName, version string, o runtime.Object) {
	t.change(func() bool {
		before, ok := t.rows[name]
		kept, keep := t.cut(o)
		if !keep {
			delete(t.rows, name)
			return ok
		}
		t.rows[name] = row[T]{version, kept}
		return !ok || before.version != version
	})
}

// remove takes away an object that is gone.
func (t *table[T]) remove(name types.NamespacedName) {
	t.change(func() bool {
		_, ok := t.rows[name]
		delete(t.rows, name)
		return ok
	})
}

// change makes a change. If there was any, it wakes the pods that await one, and has it remembered.
func (t *table[T]) change(do func() bool) {
	t.mu.Lock()
	var woken map[types.UID]bool
	if do() {
		woken, t.asked = t.asked, map[types.UID]bool{}
		t.signal()
	}
	t.mu.Unlock()
	for uid := range woken {
		t.wake(uid)
	}
}
