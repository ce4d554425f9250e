package objects

import (
	"maps"
	"slices"

	"github.com/podstream/podstream/internal/manifest"
	"github.com/podstream/podstream/internal/mergesvc/merge"
)

// Apply takes in the objects of a source's set, and has its pods merged by Config.Merge in between: an object that is new or changed
// is there before the pods that need it, and one that is gone goes after them. While an origin is held, what it had and doesn't define
// anew stays; a set with an Err changes nothing. Of a source that is asked for its objects (of the kinds api and relay, or any
// that was followed) only the pods are taken.
func (h *Hub) Apply(set manifest.Set) {
	changed, lines := h.applySet(set)
	h.tell(lines)
	if h.cfg.Merge != nil {
		h.cfg.Merge(set)
	}
	if changed {
		h.tell(h.settle(set.Source, true))
	}
}

// applySet takes a set in, and tells what is new or changed by it.
func (h *Hub) applySet(set manifest.Set) (changed bool, told []line) {
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
	told = h.settleLocked(s, false)
	for _, f := range s.unused {
		if !slices.ContainsFunc(before, func(old merge.Finding) bool { return old.Origin == f.Origin && old.Finding == f.Finding }) {
			told = append(told, line{source: s.name, finding: f})
		}
	}
	return true, told
}

// settle gives the objects that pods refer to the values that their source has now; what is gone, only if gone is set.
func (h *Hub) settle(name string, gone bool) []line {
	h.mu.Lock()
	defer h.mu.Unlock()
	// First the pods that don't need any more what is gone.
	_, told := h.advance()
	return append(told, h.settleLocked(h.source(name), gone)...)
}

func (h *Hub) settleLocked(s *source, gone bool) []line {
	r := h.open()
	for _, e := range s.sorted() {
		// Pods that come must not find what an object was before that none referred to.
		if v := s.value(e.ref); v.State == Present || gone || e.live == 0 {
			h.put(r, e, v)
		}
	}
	h.commit(r)
	return r.told()
}

// sorted are the source's entries, in the order of their references.
func (s *source) sorted() []*entry {
	return slices.SortedFunc(maps.Values(s.entries), func(a, b *entry) int { return a.ref.Compare(b.ref) })
}

// Forget drops what a source has said: it isn't configured any more. To pods that are still there its objects stay what they were.
func (h *Hub) Forget(name string) { h.tell(h.forgetSource(name)) }

func (h *Hub) forgetSource(name string) (told []line) {
	h.mu.Lock()
	defer h.mu.Unlock()
	s := h.sources[name]
	if s == nil {
		return nil
	}
	// First the pods that went with it: only as long as it is known what their objects were, it can be told that they aren't needed.
	_, told = h.advance()
	s.origins, s.byName, s.defined, s.unused, s.complete = nil, nil, nil, nil, false
	clear(s.told)
	r := h.open()
	// It isn't ready any more.
	r.ready = true
	for _, e := range s.entries {
		h.put(r, e, Value{})
	}
	h.commit(r)
	if len(s.entries) == 0 && s.phases == nil {
		delete(h.sources, name)
	}
	return told
}

// WithFindings adds to the states of the sources which of their objects aren't used. It changes none of what it is given.
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

// line is one for the log.
type line struct {
	ref   Ref
	state State
	// begun is set if not the object is new, but that pods refer to it.
	begun bool
	// source and finding are set instead for an object that isn't used.
	source  string
	finding merge.Finding
}

// told are the lines of a revision.
func (r *revisionOf) told() []line {
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

// tell logs. The caller doesn't hold mu.
func (h *Hub) tell(lines []line) {
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
