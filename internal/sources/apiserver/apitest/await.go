package apitest

import (
	"slices"
	"time"
)

// patience is how long Await waits.
const patience = 30 * time.Second

// View is a server's record of its clients' requests.
type View struct {
	// Watches are those that are open.
	Watches []Request
	// Requests are all answered requests, in that order. A watch is among them from its beginning.
	Requests []Request
}

// View returns the current View.
func (s *Server) View() View {
	view, _ := s.view()
	return view
}

func (s *Server) view() (View, <-chan struct{}) {
	s.mu.Lock()
	defer s.mu.Unlock()
	view := View{Requests: slices.Clone(s.log)}
	for w := range s.watches {
		view.Watches = append(view.Watches, w.Request)
	}
	return view, s.changed
}

// Await waits until the condition holds. Otherwise the test fails.
func (s *Server) Await(what string, holds func(View) bool) {
	s.t.Helper()
	deadline := time.NewTimer(patience)
	defer deadline.Stop()
	for {
		view, changed := s.view()
		if holds(view) {
			return
		}
		select {
		case <-changed:
		case <-deadline.C:
			s.t.Fatalf("%s: not within %v; open watches: %+v; the last requests: %+v",
				what, patience, view.Watches, view.Requests[max(0, len(view.Requests)-5):])
		}
	}
}

// AwaitWatches waits until exactly so many watches of the resource are open.
func (s *Server) AwaitWatches(resource string, n int) {
	s.t.Helper()
	s.Await("watches of "+resource, func(v View) bool { return v.Count(func(Request) bool { return true }, resource) == n })
}

// Count counts the open watches of the resource for which so is true.
func (v View) Count(so func(Request) bool, resource string) int {
	n := 0
	for _, w := range v.Watches {
		if w.Resource == resource && so(w) {
			n++
		}
	}
	return n
}

// Answered counts the requests so far for which so is true.
func (v View) Answered(so func(Request) bool) int {
	n := 0
	for _, r := range v.Requests {
		if so(r) {
			n++
		}
	}
	return n
}
