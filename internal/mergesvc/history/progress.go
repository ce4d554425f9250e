package history

import (
	"github.com/podstream/podstream/internal/manifest"
	"github.com/podstream/podstream/internal/mergesvc/revision"
	"github.com/podstream/podstream/internal/position"
)

// progress is how far a source has come, whether or not its pods changed on the way.
type progress struct {
	current   position.Positions
	confirmed uint64
}

// place sets the positions of a revision. The caller holds mu.
func (h *History) place(rev *revision.Revision) {
	if rev.Changed != nil {
		h.positions = h.positions.With(rev.Source, rev.Changed)
	}
	for _, source := range rev.Dropped {
		h.positions = h.positions.With(source, nil)
		delete(h.progress, source)
	}
	rev.Positions = h.positions
}

// Progress records how far a source has come, once all that it includes is published. Streams that wait for the source
// are woken by Reader.Wake of theirs, see Waiting.
func (h *History) Progress(source string, p *manifest.Progress) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.progress[source] = progress{current: p.Current, confirmed: p.Confirmed}
	for r := range h.waiting {
		r.Wake()
	}
}

// Reached returns the positions up to which the pods of a source are known to be current, and the number of its last
// confirmation. Before the source was read, the positions are those of the stored pods.
func (h *History) Reached(source string) (current position.Positions, confirmed uint64) {
	h.mu.RLock()
	defer h.mu.RUnlock()
	p, ok := h.progress[source]
	if !ok {
		return h.positions.Of(source), 0
	}
	return p.current, p.confirmed
}

// Published returns the positions of the last revision.
func (h *History) Published() position.Positions {
	h.mu.RLock()
	defer h.mu.RUnlock()
	return h.positions
}

// Positions returns the current positions of all sources.
func (h *History) Positions() position.Positions {
	h.mu.RLock()
	defer h.mu.RUnlock()
	out := h.positions
	for source, p := range h.progress {
		out = out.With(source, p.current)
	}
	return out
}

// Wait has the Reader woken by each Progress, until Close or until wait is false.
func (r *Reader) Wait(wait bool) {
	r.h.mu.Lock()
	defer r.h.mu.Unlock()
	if wait {
		r.h.waiting[r] = true
	} else {
		delete(r.h.waiting, r)
	}
}
