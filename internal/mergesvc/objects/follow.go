package objects

import (
	"context"
	"slices"
	"sync"

	"github.com/podstream/podstream/internal/manifest"
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
	var feeder sync.WaitGroup
	feeder.Go(func() { h.feed(feeding, source, wanted) })
	defer feeder.Wait()
	defer stop()
	return run(ctx, wanted, func(key manifest.ObjectKey, object *manifest.Object) { h.Put(source, key, object) })
}

// feed hands over what is wanted, until ctx ends.
func (h *Hub) feed(ctx context.Context, name string, wanted chan<- []manifest.ObjectKey) {
	defer h.withdraw(name)
	var last []manifest.ObjectKey
	first := true
	for {
		keys, changed := h.offer(name)
		to := wanted
		if !first && slices.Equal(keys, last) {
			to = nil
		}
		select {
		case to <- keys:
			first, last = false, slices.Clone(keys)
			h.take(name)
		case <-changed:
		case <-ctx.Done():
			return
		}
	}
}

// offer is what is wanted of a source now, in order. From now on the source may tell of it: it may do so before take is called. What
// isn't wanted any more is forgotten, and must not be taken for the truth should pods refer to it again: they wait until the
// source has left it, and follows it anew.
func (h *Hub) offer(name string) (keys []manifest.ObjectKey, changed <-chan struct{}) {
	h.mu.Lock()
	defer h.mu.Unlock()
	s := h.source(name)
	for key := range s.given {
		if e := s.entries[key]; e == nil || e.live == 0 {
			s.dropped[key] = true
			delete(s.told, key)
		}
	}
	h.settleLocked(s, true)
	s.offered = map[manifest.ObjectKey]bool{}
	keys = []manifest.ObjectKey{}
	for key, e := range s.entries {
		if e.live > 0 && !s.dropped[key] {
			keys = append(keys, key)
			s.offered[key] = true
		}
	}
	slices.SortFunc(keys, manifest.ObjectKey.Compare)
	return keys, s.changed
}

// take notes that the source follows what it was offered, and nothing else.
func (h *Hub) take(name string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	s := h.source(name)
	s.given, s.dropped = s.offered, map[manifest.ObjectKey]bool{}
	for key := range s.told {
		if !s.given[key] {
			delete(s.told, key)
		}
	}
	h.settleLocked(s, true)
}

// withdraw notes that the source follows nothing any more.
func (h *Hub) withdraw(name string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if s := h.sources[name]; s != nil {
		s.given, s.offered, s.dropped = nil, nil, map[manifest.ObjectKey]bool{}
	}
}

// Put takes in what a source tells of an object that it follows. Nil: the object doesn't exist.
func (h *Hub) Put(source string, key manifest.ObjectKey, object *manifest.Object) {
	h.tell(h.put(source, key, object))
}

func (h *Hub) put(name string, key manifest.ObjectKey, object *manifest.Object) []line {
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
	r.put(e, v)
	h.commit(r)
	return r.told()
}
