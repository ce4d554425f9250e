package service

import "slices"

// rotation is a queue that serves identities in rotation, one waiter of each, and the waiters of an identity in the
// order of their arrival. A waiter is a channel that is closed when it is served. The caller serializes the methods.
type rotation struct {
	// order are the identities with waiters, the next to be served first.
	order   []string
	waiting map[string][]chan struct{}
}

func (r *rotation) empty() bool { return len(r.order) == 0 }

// add returns a new waiter.
func (r *rotation) add(identity string) (served chan struct{}) {
	if r.waiting == nil {
		r.waiting = map[string][]chan struct{}{}
	}
	if len(r.waiting[identity]) == 0 {
		r.order = append(r.order, identity)
	}
	served = make(chan struct{})
	r.waiting[identity] = append(r.waiting[identity], served)
	return served
}

// serve serves the next waiter. It returns false if there is none.
func (r *rotation) serve() bool {
	if r.empty() {
		return false
	}
	identity := r.order[0]
	r.order = r.order[1:]
	close(r.waiting[identity][0])
	if r.keep(identity, r.waiting[identity][1:]) {
		r.order = append(r.order, identity)
	}
	return true
}

// remove takes a waiter out of the queue. It returns false if the waiter has been served.
func (r *rotation) remove(identity string, served chan struct{}) bool {
	i := slices.Index(r.waiting[identity], served)
	if i < 0 {
		return false
	}
	if !r.keep(identity, slices.Delete(r.waiting[identity], i, i+1)) {
		r.order = slices.DeleteFunc(r.order, func(o string) bool { return o == identity })
	}
	return true
}

// keep sets the waiters of an identity, and reports whether there are any.
func (r *rotation) keep(identity string, waiters []chan struct{}) bool {
	if len(waiters) == 0 {
		delete(r.waiting, identity)
		return false
	}
	r.waiting[identity] = waiters
	return true
}
