package objects

import (
	"maps"
	"slices"

	"github.com/podstream/podstream/internal/manifest"
	"github.com/podstream/podstream/internal/mergesvc/merge"
)

// Add takes in the objects that a source's set defines, and publishes those that are new or changed: it is called
// before the pods of the set are merged. If it reports true, Remove has to be called after that. While an origin is
// held, the objects that it had and doesn't define again stay. A set with an Err changes nothing. The sets of a
// source that Follow reads (of the kinds api and relay, or any that was followed) define no objects.
func (h *Hub) Add(set manifest.Set) (changed bool) {
	changed, lines := h.add(set)
	h.logLines(lines)
	return changed
}

// Remove publishes which objects the last set of a source doesn't define any more. The pods of the set are merged
// already.
func (h *Hub) Remove(source string) { h.logLines(h.settle(source, true)) }

// add is Add, without the log.
func (h *Hub) add(set manifest.Set) (changed bool, lines []line) {
	if set.Err != nil {
		return false, nil
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	s := h.source(set.Source)
	if s.asked {
		return false, nil
	}
	before := s.unused
	if !s.replace(set.Origins) {
		return false, nil
	}
	lines = h.settleLocked(s, false)
	for _, f := range s.unused {
		if !slices.ContainsFunc(before, func(old merge.Finding) bool { return old.Origin == f.Origin && old.Finding == f.Finding }) {
			lines = append(lines, line{source: s.name, finding: f})
		}
	}
	return true, lines
}

// settle gives the objects that pods refer to the current values of their source. Missing objects count only if gone
// is set.
func (h *Hub) settle(name string, gone bool) []line {
	h.mu.Lock()
	defer h.mu.Unlock()
	// First take in the pods that don't need a missing object any more.
	_, lines := h.advance()
	return append(lines, h.settleLocked(h.source(name), gone)...)
}

func (h *Hub) settleLocked(s *source, gone bool) []line {
	r := h.open()
	for _, e := range s.sorted() {
		// New pods must not find the value of an object from a time when no pod referred to it.
		if v := s.value(e.ref); v.State == Present || gone || e.live == 0 {
			h.put(r, e, v)
		}
	}
	h.commit(r)
	return r.lines()
}

// sorted are the source's entries, in the order of their references.
func (s *source) sorted() []*entry {
	return slices.SortedFunc(maps.Values(s.entries), func(a, b *entry) int { return a.ref.Compare(b.ref) })
}

// Drop removes the values of a source that isn't configured any more. Objects that pods still refer to keep their
// values.
func (h *Hub) Drop(name string) { h.logLines(h.dropSource(name)) }

func (h *Hub) dropSource(name string) (lines []line) {
	h.mu.Lock()
	defer h.mu.Unlock()
	s := h.sources[name]
	if s == nil {
		return nil
	}
	// First take in that its pods are removed: after the values are dropped, no Remove could be sent for their
	// objects.
	_, lines = h.advance()
	s.origins, s.byName, s.defined, s.unused, s.complete = nil, nil, nil, nil, false
	clear(s.reported)
	r := h.open()
	// The source isn't ready any more.
	r.ready = true
	for _, e := range s.entries {
		h.put(r, e, Value{})
	}
	h.commit(r)
	if len(s.entries) == 0 && s.phases == nil {
		delete(h.sources, name)
	}
	return lines
}

// WithFindings returns the states with findings for the objects of each source that aren't used. It doesn't change
// states.
func (h *Hub) WithFindings(states []merge.SourceState) []merge.SourceState {
	h.mu.RLock()
	defer h.mu.RUnlock()
	out := slices.Clone(states)
	for i := range out {
		if s := h.sources[out[i].Name]; s != nil && len(s.unused) > 0 {
			out[i].Findings = slices.Concat(out[i].Findings, s.unused)
		}
	}
	return out
}

// line is one line of the log.
type line struct {
	ref   Ref
	state State
	// begun is set if the reference is new, and not the object.
	begun bool
	// source and finding are set instead for an object that isn't used.
	source  string
	finding merge.Finding
}

// lines returns the log lines of a revision.
func (r *revisionOf) lines() []line {
	var out []line
	for _, e := range r.values {
		out = append(out, line{ref: e.ref, state: e.state()})
	}
	for _, e := range r.begun {
		if e.state() == Missing {
			out = append(out, line{ref: e.ref, begun: true})
		}
	}
	return out
}

// logLines writes lines to the log. The caller doesn't hold mu.
func (h *Hub) logLines(lines []line) {
	for _, l := range lines {
		switch {
		case l.source != "":
			h.log.Warn("object isn't used", "source", l.source, "origin", l.finding.Origin, "document", l.finding.Document,
				"reason", l.finding.Message)
		case l.begun:
			h.log.Info("pods refer to an object that doesn't exist", "object", l.ref.ObjectKey.String(), "source", l.ref.Source)
		default:
			h.log.Info("object that pods refer to has changed", "object", l.ref.ObjectKey.String(), "source", l.ref.Source,
				"state", l.state.String())
		}
	}
}
