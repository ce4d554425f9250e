package stream

import (
	"maps"
	"slices"

	"google.golang.org/protobuf/proto"

	podconfigv1 "github.com/podstream/podstream/proto/podconfig/v1"
)

const (
	opSet       = podconfigv1.PodOperation_POD_OPERATION_SET
	opAdd       = podconfigv1.PodOperation_POD_OPERATION_ADD
	opUpdate    = podconfigv1.PodOperation_POD_OPERATION_UPDATE
	opDelete    = podconfigv1.PodOperation_POD_OPERATION_DELETE
	opRemove    = podconfigv1.PodOperation_POD_OPERATION_REMOVE
	opReconcile = podconfigv1.PodOperation_POD_OPERATION_RECONCILE
)

// Outcome is what a revision means for the consumer.
type Outcome struct {
	// Ops are what to apply, in this order: the revision's own, each SET turned into what it changes, and before them the REMOVEs
	// that have become certain.
	Ops []*podconfigv1.PodUpdate
	// Cursor is where the consumer is afterwards.
	Cursor *podconfigv1.Cursor
	// Moved is set if that is another place than the one before.
	Moved bool
	// ReadinessChanged is set if a source is known to be ready, or not to be, that wasn't so before on this stream.
	ReadinessChanged bool
	// SourcesChanged is set if synced or a heartbeat tells of other configured sources, or of another order of them, than this stream
	// told before.
	SourcesChanged bool

	// What Apply is to remember. A nil pod is one that is gone.
	pods    map[podKey]*podconfigv1.KnownPod
	ready   map[string]bool
	sources []string
	absent  map[podKey]bool
	synced  bool
}

// Interpret tells what a revision means. It changes nothing: what isn't applied in the end was never there.
func (h *Held) Interpret(r *Revision) Outcome {
	i := &interpreter{held: h, outcome: Outcome{
		Cursor: h.cursor, pods: map[podKey]*podconfigv1.KnownPod{}, ready: h.readyAfter(r), sources: h.sourcesAfter(r),
		absent: maps.Clone(h.absent), synced: h.synced || r.Synced != nil,
	}}
	o := &i.outcome
	if r.Cursor != nil {
		o.Cursor, o.Moved = r.Cursor, !proto.Equal(r.Cursor, h.cursor)
	}
	o.ReadinessChanged, o.SourcesChanged = !maps.Equal(o.ready, h.ready), !slices.Equal(o.sources, h.sources)
	for _, u := range r.Updates {
		switch u.GetOp() {
		case opSet:
			i.set(u)
			i.tellReady(u, r.Synced != nil)
		case opRemove:
			i.remove(u)
		default:
			i.put(u)
		}
	}
	o.Ops = append(i.settle(), o.Ops...)
	return *o
}

// readyAfter is the readiness after the revision: what tells of all configured sources replaces what was known, so one that went is
// forgotten.
func (h *Held) readyAfter(r *Revision) map[string]bool {
	ready := maps.Clone(h.ready)
	for _, u := range r.Updates {
		if u.GetSource() != "" {
			ready[u.GetSource()] = u.GetSourceReady()
		}
	}
	if !r.tellsSources() {
		return ready
	}
	clear(ready)
	for _, s := range r.Sources() {
		ready[s.GetName()] = s.GetReady()
	}
	return ready
}

// sourcesAfter are the names of the configured sources as the stream has told them, in order of priority.
func (h *Held) sourcesAfter(r *Revision) []string {
	if !r.tellsSources() {
		return h.sources
	}
	names := make([]string, 0, len(r.Sources()))
	for _, s := range r.Sources() {
		names = append(names, s.GetName())
	}
	return names
}

// allReady tells whether no source is known not to be ready.
func allReady(ready map[string]bool) bool {
	for _, r := range ready {
		if !r {
			return false
		}
	}
	return true
}

// interpreter reads one revision, op by op.
type interpreter struct {
	held    *Held
	outcome Outcome
	// brought are the pods of this revision's SET.
	brought map[podKey]bool
}

// pod is the pod as it is held after the ops so far. Nil: it isn't.
func (i *interpreter) pod(key podKey) *podconfigv1.KnownPod {
	if p, touched := i.outcome.pods[key]; touched {
		return p
	}
	return i.held.pods[key]
}

// each calls f with every pod that is held after the ops so far.
func (i *interpreter) each(f func(podKey, *podconfigv1.KnownPod)) {
	for key, p := range i.held.pods {
		if _, touched := i.outcome.pods[key]; !touched {
			f(key, p)
		}
	}
	for key, p := range i.outcome.pods {
		if p != nil {
			f(key, p)
		}
	}
}

// hold notes a pod as held; forget, as gone.
func (i *interpreter) hold(p *podconfigv1.Pod) {
	i.outcome.pods[keyOf(p)] = knownPod(p)
	delete(i.outcome.absent, keyOf(p))
}

func (i *interpreter) forget(key podKey) {
	i.outcome.pods[key] = nil
	delete(i.outcome.absent, key)
}

// put passes an op on. A snapshot mode repeats as UPDATE or DELETE what the SET before it has brought: once is enough.
func (i *interpreter) put(u *podconfigv1.PodUpdate) {
	fresh := u.GetPods()
	if i.brought != nil {
		fresh = slices.DeleteFunc(slices.Clone(fresh), func(p *podconfigv1.Pod) bool {
			return i.brought[keyOf(p)] && same(i.pod(keyOf(p)), p)
		})
		if len(fresh) == 0 && len(u.GetPods()) > 0 {
			return
		}
	}
	for _, p := range fresh {
		i.hold(p)
	}
	i.pass(u, fresh)
}

// remove passes a REMOVE on, with the names of pods that podconfigd knows only from the consumer's own word.
func (i *interpreter) remove(u *podconfigv1.PodUpdate) {
	pods := slices.Clone(u.GetPods())
	for n, p := range pods {
		if old := i.pod(keyOf(p)); old != nil && p.GetRef().GetName() == "" {
			pods[n] = reference(old)
		}
		i.forget(keyOf(p))
	}
	i.pass(u, pods)
}

func (i *interpreter) pass(u *podconfigv1.PodUpdate, pods []*podconfigv1.Pod) {
	i.op(u, u.GetOp(), u.GetSource(), u.GetSourceReady(), pods)
}

// op appends an op that u caused.
func (i *interpreter) op(u *podconfigv1.PodUpdate, op podconfigv1.PodOperation, source string, ready bool, pods []*podconfigv1.Pod) {
	i.outcome.Ops = append(i.outcome.Ops, &podconfigv1.PodUpdate{
		Op: op, Source: source, SourceReady: ready, Pods: pods, ObservedTime: u.GetObservedTime(), TraceContext: u.GetTraceContext(),
	})
}

// tellReady says what a SET says beside its pods: that its source has become ready. Where synced follows, that says it.
func (i *interpreter) tellReady(u *podconfigv1.PodUpdate, synced bool) {
	told := slices.ContainsFunc(i.outcome.Ops, func(op *podconfigv1.PodUpdate) bool { return op.GetSource() == u.GetSource() })
	if u.GetSourceReady() && !i.held.ready[u.GetSource()] && !synced && !told {
		i.op(u, opAdd, u.GetSource(), true, nil)
	}
}

// settle returns the REMOVEs that have become certain: of pods that were absent from a SET, once their source is ready or, if it isn't
// configured, once all are that the stream has told of.
//
// Of a pod that no SET left out nothing is certain without a word of podconfigd's, whatever the list of sources says. Where the filter
// or the caller's role hides sources, the list may lack the one for which podconfigd waits before it gives the pod up: it serves the
// pod till then, and tells when it is gone, as it does of each pod that the request named.
func (i *interpreter) settle() []*podconfigv1.PodUpdate {
	ready, sources := i.outcome.ready, i.outcome.sources
	all := len(sources) > 0 && !slices.ContainsFunc(sources, func(name string) bool { return !ready[name] })
	gone := map[podKey]bool{}
	for key := range i.outcome.absent {
		if ready[key.source] || all && !slices.Contains(sources, key.source) {
			gone[key] = true
		}
	}
	bySource := map[string][]*podconfigv1.Pod{}
	for key := range gone {
		bySource[key.source] = append(bySource[key.source], reference(i.pod(key)))
		i.forget(key)
	}
	var out []*podconfigv1.PodUpdate
	for _, source := range slices.Sorted(maps.Keys(bySource)) {
		out = append(out, &podconfigv1.PodUpdate{Op: opRemove, Source: source, SourceReady: true, Pods: byUID(bySource[source])})
	}
	return out
}
