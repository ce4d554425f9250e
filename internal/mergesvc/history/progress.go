package history

import (
	"math"

	"github.com/podstream/podstream/client/position"
	"github.com/podstream/podstream/internal/manifest"
	"github.com/podstream/podstream/internal/mergesvc/revision"
)

// Reached is how far a source has come.
type Reached struct {
	// Current are the positions up to which its pods are known to be current.
	Current position.Positions
	// Confirmed and ConfirmedAt are as in manifest.Progress.
	Confirmed   uint64
	ConfirmedAt string
}

// progress is how far a source has come, whether or not its pods changed on the way.
type progress struct {
	// ordered is set once current and confirmed are known.
	ordered bool
	reached Reached
	// readings are the last ones in a row with the same result, and reads counts all.
	readings int
	reads    uint64
}

// place sets the positions of a revision. The caller holds mu.
func (h *History) place(rev *revision.Revision) {
	h.positions = h.positions.Update(rev.Changed)
	for _, source := range rev.Dropped {
		h.positions = h.positions.With(source, nil)
		delete(h.progress, source)
	}
	rev.Positions = h.positions
}

// Read records that a source was read, once all that the reading includes is published: whether it changed anything, and
// how far it has come; nil: the source has no order. It wakes the Readers that wait for that.
func (h *History) Read(source string, changed bool, p *manifest.Progress) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if !h.eras.at(math.MaxUint64).sources.Configured(source) {
		return // The set was ignored: a source that is configured under the name later starts without readings.
	}
	now := h.progress[source]
	now.reads++
	if changed {
		now.readings = 0
	}
	now.readings++
	if p != nil {
		now.ordered, now.reached = true, Reached{p.Current, p.Confirmed, p.ConfirmedAt}
	}
	h.progress[source] = now
	h.wakeWaiting()
}

// WakeWaiting wakes the Readers that wait for a source.
func (h *History) WakeWaiting() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.wakeWaiting()
}

func (h *History) wakeWaiting() {
	for r := range h.waiting {
		r.Wake()
	}
}

// Readings returns how many of the last readings of a source in a row have had the same result. Zero: it wasn't read.
func (h *History) Readings(source string) int {
	h.mu.RLock()
	defer h.mu.RUnlock()
	return h.progress[source].readings
}

// Reads returns how often a source was read.
func (h *History) Reads(source string) uint64 {
	h.mu.RLock()
	defer h.mu.RUnlock()
	return h.progress[source].reads
}

// Reached returns how far a source has come. Before it was read, the positions are those of the stored pods.
func (h *History) Reached(source string) Reached {
	h.mu.RLock()
	defer h.mu.RUnlock()
	p := h.progress[source]
	if !p.ordered {
		return Reached{Current: h.positions.Of(source)}
	}
	return p.reached
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
		if !p.ordered {
			continue
		}
		out = out.With(source, p.reached.Current)
	}
	return out
}

// Wait has the Reader woken by each reading of a source, until Close or until wait is false.
func (r *Reader) Wait(wait bool) {
	r.h.mu.Lock()
	defer r.h.mu.Unlock()
	if wait {
		r.h.waiting[r] = true
	} else {
		delete(r.h.waiting, r)
	}
}
