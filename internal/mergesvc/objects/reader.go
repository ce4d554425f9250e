package objects

import (
	"maps"
	"slices"
	"time"

	"github.com/podstream/podstream/internal/mergesvc/nodeindex"
)

// Reader reads the Hub for one stream. One of at most nodeindex.MaxNodes nodes is woken for the revisions that concern
// its nodes, and costs nothing for others. Its position isn't kept here. It is safe for concurrent use.
type Reader struct {
	h     *Hub
	scope Scope
	// woken gets a value when a revision concerns the nodes; nil for a Reader of all revisions.
	woken chan struct{}
}

// NewReader returns a Reader of a scope. Close ends it.
func (h *Hub) NewReader(s Scope) *Reader {
	r := &Reader{h: h, scope: s}
	if s.Nodes != nil && len(s.Nodes) <= nodeindex.MaxNodes {
		r.woken = make(chan struct{}, 1)
		h.mu.Lock()
		defer h.mu.Unlock()
		h.index.Join(r, s.Nodes)
	}
	return r
}

// Close ends the Reader. It isn't woken any more.
func (r *Reader) Close() {
	if !r.all() {
		r.h.mu.Lock()
		defer r.h.mu.Unlock()
		r.h.index.Leave(r, r.scope.Nodes)
	}
}

func (r *Reader) all() bool { return r.woken == nil }

// wake wakes a Reader of a few nodes.
func (r *Reader) wake() {
	select {
	case r.woken <- struct{}{}:
	default:
	}
}

// Next returns the next revision after number that has changes for the scope. If there is none, it returns how far
// the reader has come, and a channel that gets a value, or is closed, when there may be more. kept is false if
// revisions after number that may concern the scope are no longer kept, or number was never reached.
func (r *Reader) Next(number uint64) (d Delta, kept bool, more <-chan struct{}) {
	h := r.h
	h.mu.RLock()
	defer h.mu.RUnlock()
	more = h.appended
	if !r.all() {
		more = r.woken
	}
	for at := number; ; {
		next, kept := r.after(at)
		if !kept {
			return Delta{}, false, more
		}
		if next == nil {
			return Delta{Number: h.number, Pods: h.podsAt(h.number)}, true, more
		}
		d = Delta{Number: next.number, Pods: next.pods, Published: next.published, Changes: changes(next, r.scope), Ready: next.ready}
		if len(d.Changes) > 0 || d.Ready {
			return d, true, more
		}
		at = next.number
	}
}

// after returns the first revision after number that may have changes for the scope, or nil. The caller holds mu.
func (r *Reader) after(number uint64) (next *revisionOf, kept bool) {
	h := r.h
	if number > h.number {
		return nil, false
	}
	at := number + 1
	if r.all() {
		kept = number >= h.floor
	} else if at, kept = h.index.Next(number, r.scope.Nodes); at == 0 {
		return nil, kept
	}
	if !kept || at > h.number {
		return nil, kept
	}
	return h.recent[at-h.floor-1], true
}

// Behind returns how many revisions follow number, from the first one on that may have changes for the scope, and
// since when that one, or the oldest kept one, has been published. Zero: there is none.
func (r *Reader) Behind(number uint64) (revisions uint64, since time.Time) {
	h := r.h
	h.mu.RLock()
	defer h.mu.RUnlock()
	next, kept := r.after(number)
	switch {
	case next != nil:
		return h.number - next.number + 1, next.published
	case kept || number >= h.number:
		return 0, time.Time{}
	default:
		return h.number - number, h.recent[max(number, h.floor)-h.floor].published
	}
}

// concern is what the revision concerns: the nodes of its objects, or every Reader if it is about sources.
func (r *revisionOf) concern() nodeindex.Concern {
	return nodeindex.Concern{Nodes: slices.Collect(maps.Keys(r.places)), Every: r.ready}
}
