package rotation

import "slices"

// Queue serves keys in rotation, one waiter of each, and the waiters of a key in the order of their arrival. The zero
// value is empty. It isn't safe for concurrent use.
type Queue struct {
	// order are the keys with waiters, the next to be served first.
	order   []string
	waiting map[string][]chan struct{}
	length  int
	// have is, by n, the number of keys with more than n waiters.
	have []int
}

// Len returns the number of waiters.
func (q *Queue) Len() int { return q.length }

// Waiters returns the waiters of a key, the next to be served first. The caller must not change them.
func (q *Queue) Waiters(key string) []chan struct{} { return q.waiting[key] }

// Ahead returns how many waiters would be served before a new one of the key, if no others came. Its time doesn't grow
// with the number of keys.
func (q *Queue) Ahead(key string) int {
	n := 0
	for _, keys := range q.have[:min(len(q.waiting[key])+1, len(q.have))] {
		n += keys
	}
	return n
}

// Add returns a new waiter: a channel that Serve closes.
func (q *Queue) Add(key string) (served chan struct{}) {
	if q.waiting == nil {
		q.waiting = map[string][]chan struct{}{}
	}
	if len(q.waiting[key]) == 0 {
		q.order = append(q.order, key)
	}
	if n := len(q.waiting[key]); n < len(q.have) {
		q.have[n]++
	} else {
		q.have = append(q.have, 1)
	}
	served = make(chan struct{})
	q.waiting[key] = append(q.waiting[key], served)
	q.length++
	return served
}

// Serve serves the next waiter. It returns false if there is none.
func (q *Queue) Serve() bool {
	if q.length == 0 {
		return false
	}
	key := q.order[0]
	q.order = q.order[1:]
	close(q.waiting[key][0])
	if q.keep(key, q.waiting[key][1:]) {
		q.order = append(q.order, key)
	}
	return true
}

// Remove removes a waiter. It returns false if the waiter has been served.
func (q *Queue) Remove(key string, served chan struct{}) bool {
	i := slices.Index(q.waiting[key], served)
	if i < 0 {
		return false
	}
	if !q.keep(key, slices.Delete(q.waiting[key], i, i+1)) {
		q.order = slices.DeleteFunc(q.order, func(o string) bool { return o == key })
	}
	return true
}

// keep sets the waiters of a key, of which there is one less, and reports whether there are any.
func (q *Queue) keep(key string, waiters []chan struct{}) bool {
	q.length--
	if q.have[len(waiters)]--; q.have[len(waiters)] == 0 {
		q.have = q.have[:len(waiters)]
	}
	if len(waiters) == 0 {
		delete(q.waiting, key)
		return false
	}
	q.waiting[key] = waiters
	return true
}
