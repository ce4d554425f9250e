package podconfigd

import (
	"slices"
	"time"

	"github.com/podstream/podstream/internal/mergesvc/merge"
	"github.com/podstream/podstream/internal/sourceconfig"
)

// handover is the time between two plans in which removed sources are still configured, without readers and behind
// all others, until the added ones were read: where a source only got another name, its pods pass to the new one,
// which precedes it, without being removed in between. It is pure.
type handover struct {
	// patience is how long a removed source may stay.
	patience time.Duration
	// leaving are the removed sources. awaited are those that were added, or read from elsewhere now, and haven't
	// given a good set yet. Both are empty, or neither is.
	leaving []leaver
	awaited map[string]bool
}

// leaver is a removed source, and the time until which it may stay.
type leaver struct {
	merge.Source
	until time.Time
}

// change starts a handover to another plan, and returns the sources that go at once: those that were removed while
// none was added, and those for whose successors nothing waits any more.
func (h *handover) change(before, next []sourceconfig.Source, now time.Time) (gone []string) {
	was, is := map[string]string{}, map[string]bool{}
	for _, s := range before {
		was[s.Name] = s.Location
	}
	awaited, came := map[string]bool{}, false
	for _, s := range next {
		is[s.Name] = true
		if location, ok := was[s.Name]; !ok || location != s.Location {
			awaited[s.Name], came = true, true
		} else if h.awaited[s.Name] {
			awaited[s.Name] = true
		}
	}
	h.awaited = awaited
	h.leaving = slices.DeleteFunc(h.leaving, func(l leaver) bool { return is[l.Name] })
	for _, s := range before {
		switch {
		case is[s.Name]:
		case came:
			h.leaving = append(h.leaving, leaver{merge.Source{Name: s.Name, Location: s.Location}, now.Add(h.patience)})
		default:
			gone = append(gone, s.Name)
		}
	}
	return append(gone, h.settle()...)
}

// heard records a good set of a source, and returns the sources that go now.
func (h *handover) heard(source string) (gone []string) {
	delete(h.awaited, source)
	return h.settle()
}

// expire returns the sources whose time is over.
func (h *handover) expire(now time.Time) (gone []string) {
	h.leaving = slices.DeleteFunc(h.leaving, func(l leaver) bool {
		if l.until.After(now) {
			return false
		}
		gone = append(gone, l.Name)
		return true
	})
	return append(gone, h.settle()...)
}

// settle ends the handover if no source is awaited any more, or none leaves.
func (h *handover) settle() (gone []string) {
	if len(h.awaited) > 0 && len(h.leaving) > 0 {
		return nil
	}
	for _, l := range h.leaving {
		gone = append(gone, l.Name)
	}
	h.awaited, h.leaving = nil, nil
	return gone
}

// next returns when expire has to be called; false: not at all.
func (h *handover) next() (at time.Time, ok bool) {
	for _, l := range h.leaving {
		if !ok || l.until.Before(at) {
			at, ok = l.until, true
		}
	}
	return at, ok
}

// leaves reports whether the source leaves.
func (h *handover) leaves(source string) bool {
	return slices.ContainsFunc(h.leaving, func(l leaver) bool { return l.Name == source })
}

// sources returns the leaving sources in the Hub's form.
func (h *handover) sources() (out []merge.Source) {
	for _, l := range h.leaving {
		out = append(out, l.Source)
	}
	return out
}
