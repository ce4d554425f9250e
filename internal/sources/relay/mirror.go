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
	order []*entry
	// unready are the origins that stood for sources in the last handing over, by source and node.
	unready map[[2]string]*manifest.Origin
	// removed are the origins that went since the last handing over, by what they say of the pod, and remade are those of them whose
	// pods came again, be it from another source, and the origins that these have now.
	removed map[string][]string
	remade  map[string]bool
}

// podKey names a pod of the upstream. A UID may pass from one source to another within a revision.
type podKey struct{ source, uid string }

func keyOf(p *podconfigv1.Pod) podKey { return podKey{p.GetSource(), p.GetRef().GetUid()} }

// entry is one version of a pod. Only what was made of its message, and its place, change.
type entry struct {
	source, name string
	// spec and status are the digests at the upstream.
	spec, status string
	size         int
	// message is kept until it is read. broken: there is no pod in it. way is the relay-path of one that came through here.
	message *podconfigv1.Pod
	broken  bool
	way     string
	origin  *manifest.Origin
	// place is the entry's index in the mirror's order, while that stands.
	place int
}

// stored are the origins of all pods before anything was handed over.
func (m *mirror) stored() []*manifest.Origin {
	var out []*manifest.Origin
	for _, e := range m.pods {
		out = append(out, e.origin)
	}
	return out
}

// newMirror returns what an earlier life has left.
func newMirror(cfg Config, stored []Stored) *mirror {
	m := &mirror{
		cfg: cfg, pods: map[podKey]*entry{}, fresh: map[*entry]bool{}, unready: map[[2]string]*manifest.Origin{},
		removed: map[string][]string{}, remade: map[string]bool{},
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
	return m.again(m.held.Begin(base))
}

// again asks for the pods that came broken once more: without digests they aren't taken for held, and with a cursor nobody looks at
// what is.
func (m *mirror) again(request *podconfigv1.WatchPodUpdatesRequest) *podconfigv1.WatchPodUpdatesRequest {
	broken := false
	for _, e := range m.pods {
		broken = broken || e.broken
	}
	switch {
	case !broken:
	case len(request.GetKnownPods()) == 0:
		// They are too many to name: a SET has all of them.
		request.ResumeAfter = &podconfigv1.Cursor{}
	default:
		request.ResumeAfter = nil
		for i, k := range request.GetKnownPods() {
			if e := m.pods[podKey{k.GetSource(), k.GetUid()}]; e != nil && e.broken {
				k = proto.CloneOf(k)
				k.SpecDigest, k.StatusDigest = "", ""
				request.KnownPods[i] = k
			}
		}
	}
	return request
}

// apply takes a revision, or refuses it as a whole.
func (m *mirror) apply(r *stream.Revision) error {
	path, told := pathOf(r)
	if err := path.check(m.cfg.ID); err != nil {
		return err
	}
	if err := m.checkSources(r, told); err != nil {
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
	c := m.change()
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

// tooMuch refuses more than is configured.
func (cfg Config) tooMuch(what string, count, limit, bytes int) error {
	if count > limit || bytes > cfg.MaxBytes {
		return fmt.Errorf("%w: %d %s of %d bytes; at most %d and %d bytes are relayed",
			errTooMuch, count, what, bytes, limit, cfg.MaxBytes)
	}
	return nil
}

// origins are all that is to be handed over. What didn't change since the last call is the same pointer. If one of the
// remade was there at the last call, all the others are to be handed over before.
func (m *mirror) origins() (now []*manifest.Origin, remade map[string]bool) {
	ready := m.held.Ready()
	for e := range m.fresh {
		m.make(e, ready[e.source])
	}
	if m.order == nil {
		m.order = m.sorted()
		for i, e := range m.order {
			e.place = i
		}
	}
	now = make([]*manifest.Origin, 0, len(m.order)+len(m.sources))
	for _, e := range m.order {
		now = append(now, e.origin)
	}
	now = append(now, m.unreadyOrigins(ready)...)
	remade = m.remade
	m.removed, m.remade = map[string][]string{}, map[string]bool{}
	return now, remade
}

func (m *mirror) sorted() []*entry {
	rank := make(map[string]int, len(m.sources))
	for i, s := range m.sources {
		rank[s] = i - len(m.sources)
	}
	// What is held of a source that isn't configured has rank zero: last.
	return slices.SortedFunc(maps.Values(m.pods), func(a, b *entry) int {
		return cmp.Or(cmp.Compare(rank[a.source], rank[b.source]), cmp.Compare(a.name, b.name))
	})
}

// unreadyOrigins stand for the sources that aren't ready.
func (m *mirror) unreadyOrigins(ready map[string]bool) []*manifest.Origin {
	sources := slices.DeleteFunc(slices.Clone(m.sources), func(s string) bool { return ready[s] })
	if len(m.sources) == 0 {
		sources = []string{""}
	}
	var out []*manifest.Origin
	next := make(map[[2]string]*manifest.Origin, len(sources))
	for _, s := range sources {
		key := [2]string{s, m.path.node()}
		if next[key] = m.unready[key]; next[key] == nil {
			next[key] = notReady(s, m.path.node())
		}
		out = append(out, next[key])
	}
	m.unready = next
	return out
}

// make makes an entry's origin. Only one that came through here may become another one later.
func (m *mirror) make(e *entry, ready bool) {
	if e.message != nil {
		m.read(e)
	}
	if e.way == "" {
		delete(m.fresh, e)
	} else if e.origin == nil || e.origin.Held == ready {
		e.origin = cameThrough(e.name, e.way, !ready)
	}
}

// read reads an entry's message, once.
func (m *mirror) read(e *entry) {
	p := e.message
	e.message = nil
	pod, err := decode(p)
	if err != nil {
		e.origin, e.broken = manifest.Broken(e.name, err), true
		return
	}
	if sofar := pod.Annotations[manifest.RelayPathAnnotation]; passes(sofar, m.cfg.ID) {
		e.way = sofar
		return
	}
	e.origin = received(e.name, p, pod, m.path)
}
