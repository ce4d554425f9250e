package history

import (
	"slices"

	"github.com/podstream/podstream/internal/mergesvc/revision"
)

// Sources is the readiness of the configured sources, in order of priority. It is immutable.
//
// An era is the time between two revisions that change which sources are configured. Readiness is never lost within
// an era, so the Sources of a later revision are valid for every earlier revision of the same era. For earlier eras
// only a statement that a source was ready is valid: a source that isn't configured, or not ready, may have been
// removed since, and configured again.
type Sources []Source

// Source is the readiness of one source.
type Source struct {
	Name string
	// ReadyRevision is the revision at which the source became ready; zero if it isn't. A source that is removed and
	// configured again starts at zero.
	ReadyRevision uint64
	// Added is the revision that configured the source; zero if it was configured at the start.
	Added uint64
}

// ReadyAt reports whether the source is ready after the given revision.
func (s Source) ReadyAt(number uint64) bool { return s.ReadyRevision > 0 && s.ReadyRevision <= number }

// ReadyAt reports whether the named source is ready after the given revision.
func (s Sources) ReadyAt(name string, number uint64) bool {
	return slices.ContainsFunc(s, func(o Source) bool { return o.Name == name && o.ReadyAt(number) })
}

// AllReadyAt reports whether every source is ready after the given revision.
func (s Sources) AllReadyAt(number uint64) bool {
	return !slices.ContainsFunc(s, func(o Source) bool { return !o.ReadyAt(number) })
}

// Configured reports whether a source has that name.
func (s Sources) Configured(name string) bool {
	return slices.ContainsFunc(s, func(o Source) bool { return o.Name == name })
}

// AddedBy reports whether the named source has been configured since that revision or an earlier one.
func (s Sources) AddedBy(name string, number uint64) bool {
	return slices.ContainsFunc(s, func(o Source) bool { return o.Name == name && o.Added <= number })
}

// After returns the sources after the next revision: s itself if the revision changes nothing.
func (s Sources) After(rev *revision.Revision) Sources {
	switch {
	case rev.Sources != nil:
		next := make(Sources, 0, len(rev.Sources))
		for _, name := range rev.Sources {
			if i := slices.IndexFunc(s, func(o Source) bool { return o.Name == name }); i >= 0 {
				next = append(next, s[i])
			} else {
				next = append(next, Source{Name: name, Added: rev.Number})
			}
		}
		return next
	case rev.BecameReady:
		next := slices.Clone(s)
		for i := range next {
			if next[i].Name == rev.Source {
				next[i].ReadyRevision = rev.Number
			}
		}
		return next
	}
	return s
}

// era is a range of revisions with the same configured sources.
type era struct {
	// from is its first revision.
	from    uint64
	sources Sources
}

// eras are in order. There is always at least one; the last one is the current one.
type eras []era

// at returns the era of a revision, or the oldest one that is kept.
func (e eras) at(number uint64) era {
	for _, one := range slices.Backward(e) {
		if one.from <= number {
			return one
		}
	}
	return e[0]
}

// after returns the eras after a revision, without those that ended before revision first. It may write to e, but not
// to its Sources.
func (e eras) after(rev *revision.Revision, first uint64) eras {
	last := len(e) - 1
	if next := e[last].sources.After(rev); rev.Sources != nil {
		e = append(e, era{from: rev.Number, sources: next})
	} else {
		e[last].sources = next
	}
	for len(e) > 1 && e[1].from <= first {
		e = slices.Delete(e, 0, 1)
	}
	return e
}
