package history

import (
	"slices"

	"github.com/podstream/podstream/internal/mergesvc/revision"
)

// Sources is the readiness of the configured sources, in order of priority. It never changes.
//
// Which sources are configured changes with some revisions; between two of them lies an era. Within an era readiness is never lost,
// so Sources of a later revision answer for every earlier one of the same era too. They answer for an earlier era as well where
// they say that a source was ready; that a source isn't configured, or not ready, they tell of their own era only: it may have
// been removed since, and configured anew.
type Sources []Source

// Source is the readiness of one source.
type Source struct {
	Name string
	// ReadyRevision is the revision at which it became ready; zero while it isn't. One that is removed and configured again isn't.
	ReadyRevision uint64
	// Added is the revision that configured it; zero if it was there from the start.
	Added uint64
}

// ReadyAt tells whether the source is ready after the given revision.
func (s Source) ReadyAt(number uint64) bool { return s.ReadyRevision > 0 && s.ReadyRevision <= number }

// ReadyAt tells whether the named source is ready after the given revision.
func (s Sources) ReadyAt(name string, number uint64) bool {
	return slices.ContainsFunc(s, func(o Source) bool { return o.Name == name && o.ReadyAt(number) })
}

// AllReadyAt tells whether every source is ready after the given revision.
func (s Sources) AllReadyAt(number uint64) bool {
	return !slices.ContainsFunc(s, func(o Source) bool { return !o.ReadyAt(number) })
}

// Configured tells whether there is a source of that name.
func (s Sources) Configured(name string) bool {
	return slices.ContainsFunc(s, func(o Source) bool { return o.Name == name })
}

// After are the sources as the next revision leaves them: s itself if it changes nothing.
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

// era is the time in which the same sources are configured.
type era struct {
	// from is the revision that it begins with.
	from    uint64
	sources Sources
}

// eras are in order; the last one lasts. There is always one.
type eras []era

// at is the era of a revision; of one that is too old, the oldest that is kept.
func (e eras) at(number uint64) era {
	for _, one := range slices.Backward(e) {
		if one.from <= number {
			return one
		}
	}
	return e[0]
}

// after are the eras once a revision has passed; of those that ended before revision first none is kept. It may write to e, whose
// Sources never change.
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
