package relay

import (
	"cmp"
	"fmt"
	"maps"
	"slices"

	"google.golang.org/protobuf/proto"

	"github.com/podstream/podstream/client/position"
	"github.com/podstream/podstream/client/stream"
	"github.com/podstream/podstream/internal/failpoint"
	"github.com/podstream/podstream/internal/manifest"
	podconfigv1 "github.com/podstream/podstream/proto/podconfig/v1"
)

// mirror is the upstream's pods as origins. It does no I/O, and takes each revision as a whole or not at all.
type mirror struct {
	cfg  Config
	held *stream.Held
	pods map[podKey]*entry
	// bytes is the size of the pods.
	bytes int
	// sources are the upstream's, in order of priority.
	sources []string
	path    hops
	// reached are the positions up to which the upstream's pods are current, as it reported them last, and unnamed the
	// stored ones, which don't have the names of its sources.
	reached, unnamed position.Positions
	// fresh are the entries without an origin, and those whose origin may change without a change of the pod.
	fresh map[*entry]bool
	// order are the pods in the order of the set. Nil: it has to be made again.
	order []*entry
	// unready are the origins that stood for sources in the last set, by source and node.
	unready map[[2]string]*manifest.Origin
	// removed are the origins that were removed since the last set, by the pod's part of their names. remade are
	// those of them whose pods came again, perhaps from another source, and the current origins of these.
	removed map[string][]string
	remade  map[string]bool
}

// podKey names a pod of the upstream. A UID may move from one source to another within a revision.
type podKey struct{ source, uid string }

func keyOf(p *podconfigv1.Pod) podKey { return podKey{p.GetSource(), p.GetRef().GetUid()} }

// entry is one version of a pod. Only what was made from its message, and its place, change.
type entry struct {
	source, name string
	// spec and status are the digests at the upstream.
	spec, status string
	size         int
	// message is kept until it is decoded. broken: it has no usable pod. way is the relay-path of a pod that came
	// through here.
	message *podconfigv1.Pod
	broken  bool
	way     string
	origin  *manifest.Origin
	// place is the entry's index in the mirror's order, while that is valid.
	place int
}

// stored returns the origins of all pods before the first set.
func (m *mirror) stored() []*manifest.Origin {
	var out []*manifest.Origin
	for _, e := range m.pods {
		out = append(out, e.origin)
	}
	return out
}

// newMirror returns a mirror of the stored pods.
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
		// A pod of an origin that isn't a relay's has no source; the upstream removes it when all its sources are
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
	if len(stored) > 0 {
		m.unnamed = cfg.Positions()
	}
	return m
}

// request returns the request by which the stream resumes.
func (m *mirror) request(
	mode podconfigv1.NotificationMode, base *podconfigv1.WatchPodUpdatesRequest,
) *podconfigv1.WatchPodUpdatesRequest {
	base = proto.CloneOf(base)
	base.Mode = mode
	return m.again(m.held.Begin(base))
}

// again requests unusable pods once more: without digests they don't count as held, and with a cursor the upstream
// wouldn't look at them.
func (m *mirror) again(request *podconfigv1.WatchPodUpdatesRequest) *podconfigv1.WatchPodUpdatesRequest {
	broken := false
	for _, e := range m.pods {
		broken = broken || e.broken
	}
	switch {
	case !broken:
	case len(request.GetKnownPods()) == 0:
		// They are too many to name: a SET has all of them.
		request.ResumeAfter = m.claims()
	default:
		if request.ResumeAfter = m.claims(); len(request.ResumeAfter.GetPositions()) == 0 {
			request.ResumeAfter = nil
		}
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

// claims returns a cursor that no podconfigd accepts, with the positions that none may be behind.
func (m *mirror) claims() *podconfigv1.Cursor {
	return &podconfigv1.Cursor{Positions: m.held.Cursor().GetPositions()}
}

// apply takes a revision, or refuses it as a whole.
func (m *mirror) apply(r *stream.Revision) error {
	path, reported := pathOf(r)
	if err := path.check(m.cfg.ID); err != nil {
		return err
	}
	if err := m.checkSources(r, reported); err != nil {
		return err
	}
	if err := m.held.Check(r); err != nil {
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
	if reported {
		m.path = path
		m.rank(r.Sources())
		m.reports(r)
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

// tooMuch returns an error if the limits are exceeded.
func (cfg Config) tooMuch(what string, count, limit, bytes int) error {
	if count > limit || bytes > cfg.MaxBytes {
		return fmt.Errorf("%w: %d %s of %d bytes; at most %d and %d bytes are relayed (--relay-max-pods, --relay-max-bytes)",
			errTooMuch, count, what, bytes, limit, cfg.MaxBytes)
	}
	return nil
}

// origins returns the origins of the set. What didn't change since the last call is the same pointer. If a remade
// origin was part of the last set, all others have to be sent before.
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
	// An entry of a source that isn't configured has rank zero: last.
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

// make makes an entry's origin. Only that of a pod that came through here may change later.
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

// read decodes an entry's message, once.
func (m *mirror) read(e *entry) {
	p := e.message
	e.message = nil
	pod, err := decode(p)
	if err == nil {
		err = m.cfg.checkNode(pod)
	}
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
