package history

import "slices"

// Sources is the readiness of the configured sources, in order of priority. It never changes. Readiness is never lost, so
// later Sources answer for every earlier revision too.
type Sources []Source

// Source is the readiness of one source.
type Source struct {
	Name string
	// ReadyRevision is the revision at which it became ready; zero while it isn't.
	ReadyRevision uint64
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
