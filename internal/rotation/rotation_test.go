package rotation

import (
	"slices"
	"strings"
	"testing"
)

// TestQueue: keys are served in rotation, each key's waiters in order, and a waiter that is removed isn't served.
func TestQueue(t *testing.T) {
	var q Queue
	type waiter struct {
		name   string
		served chan struct{}
	}
	var waiters []waiter
	add := func(names ...string) {
		for _, name := range names {
			waiters = append(waiters, waiter{name, q.Add(name[:1])})
		}
	}
	add("a1", "a2", "a3", "b1", "c1", "c2")
	for key, want := range map[string]int{"a": 6, "b": 5, "c": 6, "d": 3} {
		if got := q.Ahead(key); got != want {
			t.Errorf("%d waiters are ahead of a new one of %s; want %d", got, key, want)
		}
	}
	if !q.Remove("c", waiters[4].served) || q.Remove("c", waiters[4].served) || q.Len() != 5 {
		t.Errorf("a waiter is removed once; %d are left", q.Len())
	}
	var order []string
	for q.Serve() {
		waiters = slices.DeleteFunc(waiters, func(w waiter) bool {
			select {
			case <-w.served:
				order = append(order, w.name)
				return true
			default:
				return false
			}
		})
		if len(order) == 2 {
			add("d1")
		}
	}
	if got, want := strings.Join(order, " "), "a1 b1 c2 a2 d1 a3"; got != want || q.Len() != 0 || len(q.waiting) != 0 || len(q.order) != 0 {
		t.Errorf("served %s; want %s, and nothing left of %+v", got, want, q)
	}
}
