package feed

import (
	"slices"
	"sync"
)

// maxRemovals is how many removed keys are kept. A reader that is behind them starts again.
const maxRemovals = 8192

// Table keeps rows by their keys. It is safe for concurrent use.
type Table[T any] struct {
	same func(a, b T) bool
	size func(T) int

	mu      sync.Mutex
	wakers  wakers
	version uint64
	rows    map[string]tableRow[T]
	// removals are in order of their versions; all after horizon are there.
	removals []removal
	horizon  uint64
}

type tableRow[T any] struct {
	value   T
	version uint64
}

type removal struct {
	key     string
	version uint64
}

// NewTable returns a Table. same reports whether a row needs no update, and size returns the bytes of a row.
func NewTable[T any](same func(a, b T) bool, size func(T) int) *Table[T] {
	return &Table[T]{same: same, size: size, wakers: wakers{}, rows: map[string]tableRow[T]{}}
}

// Put adds or replaces a row.
func (t *Table[T]) Put(key string, value T) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if old, ok := t.rows[key]; ok && t.same(old.value, value) {
		return
	}
	t.version++
	t.rows[key] = tableRow[T]{value, t.version}
	t.wakers.wake()
}

// Remove removes a row, if there is one.
func (t *Table[T]) Remove(key string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if _, ok := t.rows[key]; ok {
		t.remove(key)
		t.wakers.wake()
	}
}

func (t *Table[T]) remove(key string) {
	t.version++
	delete(t.rows, key)
	t.removals = append(t.removals, removal{key, t.version})
	if len(t.removals) > maxRemovals {
		half := len(t.removals) / 2
		t.horizon = t.removals[half-1].version
		t.removals = slices.Delete(t.removals, 0, half)
	}
}

// Replace makes the rows those of all.
func (t *Table[T]) Replace(all map[string]T) {
	for key, value := range all {
		t.Put(key, value)
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	before := t.version
	for key := range t.rows {
		if _, ok := all[key]; !ok {
			t.remove(key)
		}
	}
	if t.version != before {
		t.wakers.wake()
	}
}

// Get returns a row.
func (t *Table[T]) Get(key string) (value T, ok bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	row, ok := t.rows[key]
	return row.value, ok
}

// Len returns the number of rows.
func (t *Table[T]) Len() int {
	t.mu.Lock()
	defer t.mu.Unlock()
	return len(t.rows)
}

// Rows returns all rows, in no order.
func (t *Table[T]) Rows() map[string]T {
	t.mu.Lock()
	defer t.mu.Unlock()
	out := make(map[string]T, len(t.rows))
	for key, row := range t.rows {
		out[key] = row.value
	}
	return out
}

// Change is what Table.Read returns.
type Change[T any] struct {
	// Rows are the new versions of rows, oldest first, and Keys their keys.
	Rows []T
	Keys []string
	// Removed are the keys of rows that are gone. A key may be of a row that the reader never got.
	Removed []string
	// Version is the reader's position afterwards.
	Version uint64
	// Reset: the reader drops what it has; the rows are of the whole Table.
	Reset bool
	// More: others follow.
	More bool
}

// Empty reports whether nothing has changed.
func (c Change[T]) Empty() bool { return len(c.Rows) == 0 && len(c.Removed) == 0 && !c.Reset }

// Read returns what has changed after a version, at most so many rows and so many bytes, but at least one row. after is 0 for
// the start.
func (t *Table[T]) Read(after uint64, maxRows, maxBytes int) Change[T] {
	t.mu.Lock()
	defer t.mu.Unlock()
	out := Change[T]{Version: t.version}
	if after < t.horizon || after > t.version {
		out.Reset, after = after != 0, 0
	}
	type entry struct {
		key string
		row tableRow[T]
	}
	var changed []entry
	for key, row := range t.rows {
		if row.version > after {
			changed = append(changed, entry{key, row})
		}
	}
	slices.SortFunc(changed, func(a, b entry) int {
		if a.row.version < b.row.version {
			return -1
		}
		return 1
	})
	bytes := 0
	for i, e := range changed {
		size := t.size(e.row.value) + itemBytes
		if i > 0 && (i == maxRows || bytes+size > maxBytes) {
			out.More, out.Version = true, changed[i-1].row.version
			break
		}
		bytes += size
		out.Rows, out.Keys = append(out.Rows, e.row.value), append(out.Keys, e.key)
	}
	if after == 0 {
		return out // The reader has no rows.
	}
	for _, r := range t.removals {
		if r.version > after && r.version <= out.Version {
			if _, ok := t.rows[r.key]; !ok {
				out.Removed = append(out.Removed, r.key)
			}
		}
	}
	return out
}

// Follow registers a channel with a buffer of one, until stop is called.
func (t *Table[T]) Follow(c chan<- struct{}) (stop func()) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.wakers.add(c)
	return func() {
		t.mu.Lock()
		defer t.mu.Unlock()
		t.wakers.remove(c)
	}
}

// Keys returns the keys of the rows whose version is at most the given one.
func (t *Table[T]) Keys(version uint64) []string {
	t.mu.Lock()
	defer t.mu.Unlock()
	var out []string
	for key, row := range t.rows {
		if row.version <= version {
			out = append(out, key)
		}
	}
	return out
}
