package relay

import (
	"maps"
	"strings"

	"google.golang.org/protobuf/proto"

	podconfigv1 "github.com/podstream/podstream/proto/podconfig/v1"
)

// change is the effect of one revision on a mirror.
type change struct {
	*mirror
	// next are the entries after it; nil for a removed one.
	next map[podKey]*entry
	// removed and remade are what it adds to the mirror's fields.
	removed map[string][]string
	remade  map[string]bool
}

func (m *mirror) change() *change {
	return &change{mirror: m, next: map[podKey]*entry{}, removed: map[string][]string{}, remade: map[string]bool{}}
}

func (c *change) current(key podKey) *entry {
	if e, touched := c.next[key]; touched {
		return e
	}
	return c.pods[key]
}

func (c *change) remove(key podKey) {
	if old := c.current(key); old != nil {
		c.removed[old.pod()] = append(c.removed[old.pod()], old.name)
		c.next[key] = nil
	}
}

func (c *change) put(p *podconfigv1.Pod) {
	ref := p.GetRef()
	e := &entry{
		source: p.GetSource(), name: originName(p.GetSource(), ref.GetNamespace(), ref.GetName(), ref.GetUid()),
		spec: p.GetSpecDigest(), status: p.GetStatusDigest(), size: proto.Size(p), message: p,
	}
	for _, removed := range []map[string][]string{c.mirror.removed, c.removed} {
		for _, name := range removed[e.pod()] {
			c.remade[name], c.remade[e.name] = true, true
		}
	}
	if old := c.current(keyOf(p)); old == nil || !old.says(e) {
		c.next[keyOf(p)] = e
	}
}

// pod returns the part of the origin's name after the source.
func (e *entry) pod() string {
	_, pod, _ := strings.Cut(e.name, " ")
	return pod
}

// says reports whether a good origin was made from an equal message.
func (e *entry) says(o *entry) bool {
	return e.origin != nil && len(e.origin.Pods) > 0 && e.name == o.name && e.spec == o.spec && e.status == o.status
}

// commit applies the change, unless the result exceeds the limits.
func (c *change) commit() error {
	m, pods, bytes := c.mirror, len(c.pods), c.bytes
	for key, e := range c.next {
		if old := m.pods[key]; old != nil {
			pods, bytes = pods-1, bytes-old.size
		}
		if e != nil {
			pods, bytes = pods+1, bytes+e.size
		}
	}
	if err := m.cfg.tooMuch("pods", pods, m.cfg.MaxPods, bytes); err != nil && (pods > len(m.pods) || bytes > m.bytes) {
		return err
	}
	for key, e := range c.next {
		old := m.pods[key]
		switch {
		case old == nil || e == nil || old.name != e.name:
			m.order = nil
		case m.order != nil:
			// Making the order again for each change would cost what exists, not what changed.
			e.place = old.place
			m.order[e.place] = e
		}
		delete(m.fresh, old)
		delete(m.pods, key)
		if e != nil {
			m.pods[key], m.fresh[e] = e, true
		}
	}
	for pod, names := range c.removed {
		m.removed[pod] = append(m.removed[pod], names...)
	}
	maps.Copy(m.remade, c.remade)
	m.bytes = bytes
	return nil
}
