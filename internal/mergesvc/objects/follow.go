package objects

import (
	"context"
	"slices"
	"sync"

	"github.com/podstream/podstream/internal/manifest"
)

// phase is the state of one object at a source that Follow reads. The zero value: the source doesn't follow the
// object.
type phase int

const (
	_ phase = iota
	// offered: the source is being given it, and may report it already.
	offered
	// given: the source follows it.
	given
	// dropped: the source is to stop following it. Its reports are outdated, so it must stop before it is given the
	// object again.
	dropped
)

// Follow calls run, which is sources.ObjectSource.RunObjects, until ctx ends, and returns its result. It sends run
// the full set of objects that the source's pods refer to, at once and after each change; a set that run hasn't
// received is replaced by the next one. Reported values stay when Follow ends.
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

// feeder keeps the needed objects of a source, so that the Hub's lock is held only for what changed in them.
type feeder struct {
	hub    *Hub
	source string
	// keys are the needed objects, in order.
	keys []manifest.ObjectKey
}

// feed sends the needed objects until ctx ends.
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

// offer updates keys. From now on the source may report them, even before take is called. The value of an object that
// isn't needed any more is dropped, and isn't used if pods refer to it again: they wait until the source has stopped
// following it, and follows it again.
func (f *feeder) offer() (changed <-chan struct{}) {
	added, removed, changed := f.hub.offer(f.source)
	if len(added)+len(removed) == 0 {
		return changed
	}
	// A new slice, as the source may have the previous one.
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
		if delete(s.reported, key); e != nil {
			h.put(r, e, Value{})
		}
	}
	h.commit(r)
	clear(s.turned)
	return added, removed, s.changed
}

// beginOffers offers all needed objects again. Values of an earlier Follow stay until this one reports them.
func (h *Hub) beginOffers(s *source) {
	s.phases, s.turned, s.moving = map[manifest.ObjectKey]phase{}, map[manifest.ObjectKey]bool{}, map[manifest.ObjectKey]bool{}
	for key := range s.entries {
		s.turned[key] = true
	}
	for key := range s.reported {
		s.turned[key] = true
	}
	h.settleLocked(s, true)
}

// take records that the source now follows exactly what it was offered.
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

// withdraw records that the source follows nothing any more.
func (f *feeder) withdraw() {
	f.hub.mu.Lock()
	defer f.hub.mu.Unlock()
	if s := f.hub.sources[f.source]; s != nil {
		s.phases, s.turned, s.moving = nil, nil, nil
	}
}

// Put takes in a source's report of an object that it follows. Nil: the object doesn't exist.
func (h *Hub) Put(source string, key manifest.ObjectKey, object *manifest.Object) {
	h.logLines(h.take(source, key, object))
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
	if v.Equal(s.reported[key]) {
		return nil
	}
	s.reported[key] = v
	e := s.entries[key]
	if e == nil {
		return nil
	}
	r := h.open()
	h.put(r, e, v)
	h.commit(r)
	return r.lines()
}
