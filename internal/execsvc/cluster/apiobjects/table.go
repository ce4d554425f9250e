package apiobjects

import (
	"context"
	"log/slog"
	"sync"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
)

// table has the API server's objects of one kind, reduced to the needed part.
type table[T any] struct {
	// what is the kind's name in messages.
	what string
	// cut returns the needed part of an object; false: none.
	cut  func(runtime.Object) (T, bool)
	wake func(types.UID)
	// uid is Config.UID.
	uid func(context.Context) (types.UID, error)
	log *slog.Logger
	// awaits reports whether a pod that has found these objects must be woken by the next change.
	awaits func(found []T, known knowledge) bool
	// memory stores the objects across restarts. Nil: nothing is stored.
	memory *memory[T]
	// recalling runs once, because stored objects change only when objects are read.
	recalling sync.Once
	// changed has a value if objects have to be stored.
	changed chan struct{}

	mu    sync.Mutex
	known knowledge
	// why is the error of the last attempt to read; nil after success.
	why error
	// answer is the last one to which cluster there is. It isn't requested without a memory.
	answer answer
	// rows are by namespace and name, once objects were read from the cluster. Before that they are the recalled ones.
	rows         map[types.NamespacedName]row[T]
	cluster      types.UID
	recalled     []T
	recalledFrom document
	// asked are the pods to wake at the next change.
	asked map[types.UID]bool
	// news is closed, and replaced, at each change.
	news chan struct{}
}

// knowledge is the origin of a table's content.
type knowledge int

const (
	// unread: the table is empty.
	unread knowledge = iota
	// remembered: stored before the restart, because the API server can't be read.
	remembered
	// read: from the API server, all of it at least once.
	read
)

// answer is an API server's to which cluster it is of.
type answer struct {
	// given: it was reached. cluster is empty if it doesn't show its UID.
	given   bool
	cluster types.UID
}

// row is one object.
type row[T any] struct {
	version string
	kept    T
}

func newTable[T any](what string, cut func(runtime.Object) (T, bool), cfg Config) *table[T] {
	return &table[T]{
		what: what, cut: cut, wake: cfg.Wake, uid: cfg.UID, log: cfg.Logger, changed: make(chan struct{}, 1),
		rows: map[types.NamespacedName]row[T]{}, asked: map[types.UID]bool{}, news: make(chan struct{}),
	}
}

// find returns the matching objects, in no order, and their origin.
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
	if pod != "" && t.awaits(found, t.known) {
		t.asked[pod] = true
	}
	return found, t.known
}

// next returns a channel that is closed at the next change.
func (t *table[T]) next() <-chan struct{} {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.news
}

func (t *table[T]) drop(pod types.UID) {
	t.mu.Lock()
	defer t.mu.Unlock()
	delete(t.asked, pod)
}

// failing returns the reason why objects can't be read now, if known.
func (t *table[T]) failing() error {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.why
}

// report records the result of an attempt, and logs it if it has changed. If the attempt failed before anything was
// read, stored objects are used.
func (t *table[T]) report(err error) {
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

// replace replaces all objects by those of a cluster.
func (t *table[T]) replace(rows map[types.NamespacedName]row[T], cluster types.UID) {
	t.change(func() bool {
		changed := t.known != read || len(rows) != len(t.rows) || cluster != t.cluster
		for name, r := range rows {
			before, ok := t.rows[name]
			changed = changed || !ok || before.version != r.version
		}
		t.known, t.rows, t.cluster, t.recalled = read, rows, cluster, nil
		return changed
	})
}

// put adds or updates an object.
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

// remove removes an object.
func (t *table[T]) remove(name types.NamespacedName) {
	t.change(func() bool {
		_, ok := t.rows[name]
		delete(t.rows, name)
		return ok
	})
}

// change applies a change. If there was any, it wakes the pods that wait for one, and has the objects stored.
func (t *table[T]) change(do func() bool) {
	t.mu.Lock()
	var woken map[types.UID]bool
	if do() {
		woken, t.asked = t.asked, map[types.UID]bool{}
		close(t.news)
		t.news = make(chan struct{})
		t.signal()
	}
	t.mu.Unlock()
	for uid := range woken {
		t.wake(uid)
	}
}
