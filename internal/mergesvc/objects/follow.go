package objects

import (
	"context"
	"slices"
	"sync"

	"github.com/podstream/podstream/internal/manifest"
)

// phase is how far a source that is asked for its objects is with one of them. Without a phase it has nothing to do with it.
type phase int

const (
	_ phase = iota
	// offered: the source is being given it, and may tell of it already.
	offered
	// given: the source follows it.
	given
	// dropped: the source follows it still and is to leave it. What it tells of it grows old, so it has to have left it before it is
	// given it again.
	dropped
)

// Follow runs what tells of a source's objects, sources.ObjectSource.RunObjects, until ctx ends, and returns what it returns. It gives
// run the objects that the source's pods refer to: the full set, the first at once and then each time that it is another one; if run
// doesn't take a set, the next takes its place. What was told stands when Follow ends.
func (h *Hub) Follow(
	ctx context.Context, source string,
	run func(ctx context.Context, wanted <-chan []manifest.ObjectKey, out func(manifest.ObjectKey, *manifest.Object)) error,
) error {
	h.mu.Lock()
	h.source(source).asked = true
	h.mu.Unlock()
	wanted := make(chan []manifest.ObjectKey)
	feeding, stop := context.WithCancel(ctx)
	var running sync.WaitGroup
	running.Go(func() { (&feeder{hub: h, source: source}).feed(feeding, wanted) })
	defer running.Wait()
	defer stop()
	return run(ctx, wanted, func(key manifest.ObjectKey, object *manifest.Object) { h.Put(source, key, object) })
}

// feeder keeps what is wanted of a source, so that under the Hub's lock no more has to be done than for what is new of it.
type feeder struct {
	hub    *Hub
	source string
	// keys are what is wanted, in order.
	keys []manifest.ObjectKey
}

// feed hands over what is wanted, until ctx ends.
func (f *feeder) feed(ctx context.Context, wanted chan<- []manifest.ObjectKey) {
	defer f.withdraw()
	var last []manifest.ObjectKey
	first := true
	for {
		changed := f.offer()
		var to chan<- []manifest.ObjectKey
		var theirs []manifest.ObjectKey
		if first || !slices.Equal(f.keys, last) {
			to, theirs = wanted, slices.Clone(f.keys)
		}
		select {
		case to <- theirs:
			first, last = false, f.keys
			f.take()
		case <-changed:
		case <-ctx.Done():
			return
		}
	}
}

// offer brings keys up to date. From now on the source may tell of them: it may do so before take is called. What isn't wanted any
// more is forgotten, and must not be taken for the truth should pods refer to it again: they wait until the source has left it, and
// follows it anew.
func (f *feeder) offer() (changed <-chan struct{}) {
	added, removed, changed := f.hub.offer(f.source)
	if len(added)+len(removed) == 0 {
		return changed
	}
	// A slice of its own, as the keys before may be those that the source has.
	keys := make([]manifest.ObjectKey, 0, len(f.keys)+len(added))
	for _, key := range f.keys {
		if !removed[key] {
			keys = append(keys, key)
		}
	}
	keys = append(keys, added...)
	f.keys = keys
	slices.SortFunc(f.keys, manifest.ObjectKey.Compare)
	return changed
}

func (h *Hub) offer(name string) (added []manifest.ObjectKey, removed map[manifest.ObjectKey]bool, changed <-chan struct{}) {
	h.mu.Lock()
	defer h.mu.Unlock()
	s := h.source(name)
	if s.phases == nil {
		h.beginOffers(s)
	}
	removed = map[manifest.ObjectKey]bool{}
	r := h.open()
	for key := range s.turned {
		e := s.entries[key]
		if s.wants(key) {
			if s.phases[key] == 0 {
				added = append(added, key)
				s.phases[key] = offered
				s.moving[key] = true
			}
			continue
		}
		switch s.phases[key] {
		case offered:
			delete(s.phases, key)
			removed[key] = true
		case given:
			s.phases[key] = dropped
			s.moving[key] = true
			removed[key] = true
		}
		if delete(s.told, key); e != nil {
			h.put(r, e, Value{})
		}
	}
	h.commit(r)
	clear(s.turned)
	return added, removed, s.changed
}

// beginOffers makes everything that is wanted new to the source. What an earlier Follow was told of it stands until this one is told.
func (h *Hub) beginOffers(s *source) {
	s.phases, s.turned, s.moving = map[manifest.ObjectKey]phase{}, map[manifest.ObjectKey]bool{}, map[manifest.ObjectKey]bool{}
	for key := range s.entries {
		s.turned[key] = true
	}
	for key := range s.told {
		s.turned[key] = true
	}
	h.settleLocked(s, true)
}

// take notes that the source follows what it was offered, and nothing else.
func (f *feeder) take() {
	f.hub.mu.Lock()
	defer f.hub.mu.Unlock()
	s := f.hub.source(f.source)
	for key := range s.moving {
		switch s.phases[key] {
		case offered:
			s.phases[key] = given
		case dropped:
			delete(s.phases, key)
			if s.wants(key) {
				s.turned[key] = true
			}
		}
	}
	clear(s.moving)
}

// withdraw notes that the source follows nothing any more.
func (f *feeder) withdraw() {
	f.hub.mu.Lock()
	defer f.hub.mu.Unlock()
	if s := f.hub.sources[f.source]; s != nil {
		s.phases, s.turned, s.moving = nil, nil, nil
	}
}

// Put takes in what a source tells of an object that it follows. Nil: the object doesn't exist.
func (h *Hub) Put(source string, key manifest.ObjectKey, object *manifest.Object) {
	h.tell(h.take(source, key, object))
}

func (h *Hub) take(name string, key manifest.ObjectKey, object *manifest.Object) []line {
	h.mu.Lock()
	defer h.mu.Unlock()
	s := h.source(name)
	if !s.follows(key) {
		return nil
	}
	ref := Ref{name, key}
	v := Value{State: Missing}
	if object != nil {
		v = Value{State: Present, Object: newObject(ref, object)}
	}
	if v.Equal(s.told[key]) {
		return nil
	}
	s.told[key] = v
	e := s.entries[key]
	if e == nil {
		return nil
	}
	r := h.open()
	h.put(r, e, v)
	h.commit(r)
	return r.told()
}
