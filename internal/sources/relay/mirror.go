package relay

import (
	"cmp"
	"fmt"
	"maps"
	"slices"

	"google.golang.org/protobuf/proto"

	"github.com/podstream/podstream/client/stream"
	"github.com/podstream/podstream/internal/failpoint"
	"github.com/podstream/podstream/internal/manifest"
	podconfigv1 "github.com/podstream/podstream/proto/podconfig/v1"
)

// mirror is the upstream's pods as origins. It is a value without I/O, and what it is told it takes whole or not at all.
type mirror struct {
	cfg  Config
	held *stream.Held
	pods map[podKey]*entry
	// bytes is what the pods take.
	bytes int
	// sources are the upstream's, in order of priority.
	sources []string
	path    hops
	// fresh are the entries without an origin, and those whose origin may become another one without a word about the pod.
	fresh map[*entry]bool
	// order are the pods as they are handed over. Nil: it has to be made anew.
	order []podKey
	// unready are the origins that stand for sources, by source and node.
	unready map[[2]string]*manifest.Origin
	// removed are the origins that went since the last handing over, and remade those of them that came again.
	removed, remade map[string]bool
}

// podKey names a pod of the upstream. A UID may pass from one source to another within a revision.
type podKey struct{ source, uid string }

func keyOf(p *podconfigv1.Pod) podKey { return podKey{p.GetSource(), p.GetRef().GetUid()} }

// entry is one version of a pod. Only its origin changes.
type entry struct {
	source, name string
	// spec and status are the digests at the upstream.
	spec, status string
	size         int
	// message is kept until the origin is made of it for good.
	message *podconfigv1.Pod
	origin  *manifest.Origin
}

// newMirror returns what an earlier life has left.
func newMirror(cfg Config, stored []Stored) *mirror {
	m := &mirror{
		cfg: cfg, pods: map[podKey]*entry{}, fresh: map[*entry]bool{}, unready: map[[2]string]*manifest.Origin{},
		removed: map[string]bool{}, remade: map[string]bool{},
	}
	var known []*podconfigv1.KnownPod
	for _, s := range stored {
		pod := *s.Pod
		pod.Annotations = maps.Clone(pod.Annotations)
		delete(pod.Annotations, manifest.SourceAnnotation)
		delete(pod.Annotations, manifest.SeenAnnotation)
		// A pod of an origin that isn't a relay's has no source; the upstream says that it is gone when all its sources are
		// ready.
		e := &entry{
			source: sourceOf(s.Origin, s.Pod), name: s.Origin, spec: s.SpecDigest, status: s.StatusDigest, size: pod.Size(),
			origin: &manifest.Origin{Name: s.Origin, Pods: []*manifest.Pod{{
				Pod: &pod, SpecDigest: s.SpecDigest, StatusDigest: s.StatusDigest,
			}}},
		}
		m.pods[podKey{e.source, string(pod.UID)}] = e
		m.bytes += e.size
		known = append(known, &podconfigv1.KnownPod{
			Uid: string(pod.UID), Source: e.source, Namespace: pod.Namespace, Name: pod.Name,
			SpecDigest: s.SpecDigest, StatusDigest: s.StatusDigest,
		})
	}
	m.held = stream.NewHeld(nil, known)
	return m
}

// request is what to ask the upstream for, so that it goes on where it was.
func (m *mirror) request(
	mode podconfigv1.NotificationMode, base *podconfigv1.WatchPodUpdatesRequest,
) *podconfigv1.WatchPodUpdatesRequest {
	base = proto.CloneOf(base)
	base.Mode = mode
	return m.held.Begin(base)
}

// apply takes a revision, or refuses it as a whole.
func (m *mirror) apply(r *stream.Revision) error {
	path, told := pathOf(r)
	if err := path.check(m.cfg.ID); err != nil {
		return err
	}
	for _, u := range r.Updates {
		if u.GetOp() == podconfigv1.PodOperation_POD_OPERATION_REMOVE {
			continue
		}
		for _, p := range u.GetPods() {
			if err := checkPod(p); err != nil {
				return err
			}
		}
	}
	outcome := m.held.Interpret(r)
	c := change{mirror: m, next: map[podKey]*entry{}, removed: maps.Clone(m.removed), remade: maps.Clone(m.remade)}
	for _, u := range outcome.Ops {
		for _, p := range u.GetPods() {
			switch {
			case u.GetOp() != podconfigv1.PodOperation_POD_OPERATION_REMOVE:
				c.put(p)
			case !failpoint.Active(failpoint.RelayDropRemove):
				c.remove(keyOf(p))
			}
		}
	}
	if err := c.commit(); err != nil {
		return err
	}
	m.held.Apply(outcome)
	if told {
		m.path = path
		m.rank(r.Sources())
	}
	return nil
}

// pathOf is the path that a revision tells, if it does: then it tells all sources, too.
func pathOf(r *stream.Revision) (path hops, told bool) {
	if r.Synced != nil {
		return r.Synced.GetPath(), true
	}
	return r.Heartbeat.GetPath(), r.Heartbeat != nil
}

// rank takes the upstream's order of priority.
func (m *mirror) rank(sources []*podconfigv1.SourceReadiness) {
	var names []string
	for _, s := range sources {
		names = append(names, s.GetName())
	}
	if !slices.Equal(names, m.sources) {
		m.sources, m.order = names, nil
	}
}

// change is what one revision does to a mirror.
type change struct {
	*mirror
	// next are the entries after it; nil for one that is gone.
	next            map[podKey]*entry
	removed, remade map[string]bool
}

func (c *change) current(key podKey) *entry {
	if e, touched := c.next[key]; touched {
		return e
	}
	return c.pods[key]
}

func (c *change) remove(key podKey) {
	if old := c.current(key); old != nil {
		c.removed[old.name] = true
		c.next[key] = nil
	}
}

func (c *change) put(p *podconfigv1.Pod) {
	ref := p.GetRef()
	e := &entry{
		source: p.GetSource(), name: originName(p.GetSource(), ref.GetNamespace(), ref.GetName(), ref.GetUid()),
		spec: p.GetSpecDigest(), status: p.GetStatusDigest(), size: proto.Size(p), message: p,
	}
	if c.removed[e.name] {
		c.remade[e.name] = true
	}
	if old := c.current(keyOf(p)); old == nil || !old.says(e) {
		c.next[keyOf(p)] = e
	}
}

// says tells whether a good origin was made of a message that says the same.
func (e *entry) says(o *entry) bool {
	return e.message == nil && len(e.origin.Pods) > 0 && e.name == o.name && e.spec == o.spec && e.status == o.status
}

// commit makes it so, unless it is too much.
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
		if old == nil || e == nil || old.name != e.name {
			m.order = nil
		}
		delete(m.fresh, old)
		delete(m.pods, key)
		if e != nil {
			m.pods[key], m.fresh[e] = e, true
		}
	}
	m.bytes, m.removed, m.remade = bytes, c.removed, c.remade
	return nil
}

// tooMuch refuses more than is configured.
func (cfg Config) tooMuch(what string, count, limit, bytes int) error {
	if count > limit || bytes > cfg.MaxBytes {
		return fmt.Errorf("%w: %d %s of %d bytes; at most %d and %d bytes are relayed",
			errTooMuch, count, what, bytes, limit, cfg.MaxBytes)
	}
	return nil
}

// origins are all that is to be handed over. What didn't change since the last call is the same pointer. Without the origins that
// were remade since then, those of the last call are to be handed over before.
func (m *mirror) origins() (now []*manifest.Origin, remade map[string]bool) {
	ready := m.held.Ready()
	for e := range m.fresh {
		m.make(e, ready[e.source])
	}
	if m.order == nil {
		m.order = m.sorted()
	}
	now = make([]*manifest.Origin, 0, len(m.order)+len(m.sources))
	for _, key := range m.order {
		now = append(now, m.pods[key].origin)
	}
	for _, s := range m.sources {
		if !ready[s] {
			now = append(now, m.unreadyOrigin(s))
		}
	}
	if len(m.sources) == 0 {
		now = append(now, m.unreadyOrigin(""))
	}
	remade = m.remade
	m.removed, m.remade = map[string]bool{}, map[string]bool{}
	return now, remade
}

func (m *mirror) sorted() []podKey {
	rank := make(map[string]int, len(m.sources))
	for i, s := range m.sources {
		rank[s] = i - len(m.sources)
	}
	// What is held of a source that isn't configured has rank zero: last.
	return slices.SortedFunc(maps.Keys(m.pods), func(a, b podKey) int {
		return cmp.Or(cmp.Compare(rank[a.source], rank[b.source]), cmp.Compare(m.pods[a].name, m.pods[b].name))
	})
}

func (m *mirror) unreadyOrigin(source string) *manifest.Origin {
	key := [2]string{source, m.path.node()}
	if m.unready[key] == nil {
		m.unready[key] = notReady(source, m.path.node())
	}
	return m.unready[key]
}

// make makes an entry's origin.
func (m *mirror) make(e *entry, ready bool) {
	pod, err := decode(e.message)
	if err != nil {
		e.origin, e.message = manifest.Broken(e.name, err), nil
		delete(m.fresh, e)
		return
	}
	sofar := pod.Annotations[manifest.RelayPathAnnotation]
	if passes(sofar, m.cfg.Node) && !m.path.haveOther(m.cfg.Node, m.cfg.ID) {
		if e.origin == nil || e.origin.Held == ready {
			e.origin = cameThrough(e.name, sofar, !ready)
		}
		return
	}
	e.origin, e.message = received(e.name, e.message, pod, m.path), nil
	delete(m.fresh, e)
}
