package stream

import (
	"maps"
	"slices"

	"github.com/podstream/podstream/client/position"
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

// Outcome is the effect of a revision on the consumer.
type Outcome struct {
	// Ops are applied in this order: first the REMOVEs that have become certain, then the revision's own ops, with a
	// SET replaced by the ops that lead to it.
	Ops []*podconfigv1.PodUpdate
	// Cursor is the consumer's position afterwards, to be stored as a whole. It is the revision's, with the positions that
	// the consumer keeps.
	Cursor *podconfigv1.Cursor
	// Moved reports whether Cursor differs from the former position.
	Moved bool
	// ReadinessChanged reports whether the readiness of a source on this stream changes.
	ReadinessChanged bool
	// SourcesChanged reports whether synced or a heartbeat lists other sources, or another order, than this stream
	// listed before.
	SourcesChanged bool
	// HeldChanged reports whether synced or a heartbeat holds back other sources than this stream did before.
	HeldChanged bool

	// The state that Apply records. A nil pod is removed.
	pods    map[podKey]*podconfigv1.KnownPod
	ready   map[string]bool
	sources []string
	absent  map[podKey]bool
	synced  bool
	claims  position.Positions
	placed  bool
	// heldBack has the reasons.
	heldBack map[string]string
}

// Interpret returns the effect of a revision that Check has accepted. It changes nothing: a revision that isn't passed to Apply has no
// effect.
func (h *Held) Interpret(r *Revision) Outcome {
	i := &interpreter{held: h, outcome: Outcome{
		pods: map[podKey]*podconfigv1.KnownPod{}, ready: h.readyAfter(r), sources: h.sourcesAfter(r), heldBack: h.heldAfter(r),
		absent: maps.Clone(h.absent), synced: h.synced || r.Synced != nil,
	}}
	o := &i.outcome
	o.HeldChanged = !slices.Equal(slices.Sorted(maps.Keys(o.heldBack)), slices.Sorted(maps.Keys(h.heldBack)))
	o.ReadinessChanged, o.SourcesChanged = !maps.Equal(o.ready, h.ready), !slices.Equal(o.sources, h.sources)
	for _, u := range r.Updates {
		switch u.GetOp() {
		case opSet:
			i.set(u)
			i.addReady(u, r.Synced != nil)
		case opRemove:
			i.remove(u)
		default:
			i.put(u)
		}
	}
	o.Ops = append(i.settle(), o.Ops...)
	i.place(r)
	return *o
}

// readyAfter returns the readiness after the revision. A list of all configured sources replaces the former
// readiness, so a source that isn't configured any more is dropped.
func (h *Held) readyAfter(r *Revision) map[string]bool {
	ready := maps.Clone(h.ready)
	for _, u := range r.Updates {
		if u.GetSource() != "" {
			ready[u.GetSource()] = u.GetSourceReady()
		}
	}
	if !r.listsSources() {
		return ready
	}
	clear(ready)
	for _, s := range r.Sources() {
		ready[s.GetName()] = s.GetReady() && s.GetHeldReason() == ""
	}
	return ready
}

// heldAfter returns the reasons of the sources that are held back after the revision.
func (h *Held) heldAfter(r *Revision) map[string]string {
	if !r.listsSources() {
		return h.heldBack
	}
	var held map[string]string
	for _, s := range r.Sources() {
		if s.GetHeldReason() != "" {
			if held == nil {
				held = map[string]string{}
			}
			held[s.GetName()] = s.GetHeldReason()
		}
	}
	return held
}

// sourcesAfter returns the names of the configured sources after the revision, in order of priority.
func (h *Held) sourcesAfter(r *Revision) []string {
	if !r.listsSources() {
		return h.sources
	}
	names := make([]string, 0, len(r.Sources()))
	for _, s := range r.Sources() {
		names = append(names, s.GetName())
	}
	return names
}

// allReady reports whether no source is known as not ready.
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

// pod returns the held pod after the ops so far, or nil.
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

// hold records a pod as held, and drop as removed.
func (i *interpreter) hold(p *podconfigv1.Pod) {
	i.outcome.pods[keyOf(p)] = knownPod(p)
	delete(i.outcome.absent, keyOf(p))
}

func (i *interpreter) drop(key podKey) {
	i.outcome.pods[key] = nil
	delete(i.outcome.absent, key)
}

// put appends an op. The snapshot mode repeats the pods of its SET as UPDATE or DELETE; the repeats are dropped.
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
	i.displace(u, fresh)
	for _, p := range fresh {
		i.hold(p)
	}
	i.pass(u, fresh)
}

// remove appends a REMOVE. Where podconfigd has a pod only from the request's known_pods, remove fills in the pod's
// name.
func (i *interpreter) remove(u *podconfigv1.PodUpdate) {
	pods := slices.Clone(u.GetPods())
	for n, p := range pods {
		if old := i.pod(keyOf(p)); old != nil && p.GetRef().GetName() == "" {
			pods[n] = reference(old)
		}
		i.drop(keyOf(p))
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

// addReady appends the empty ADD of a source that became ready with a SET. With synced it isn't needed.
func (i *interpreter) addReady(u *podconfigv1.PodUpdate, synced bool) {
	reported := slices.ContainsFunc(i.outcome.Ops, func(op *podconfigv1.PodUpdate) bool { return op.GetSource() == u.GetSource() })
	if u.GetSourceReady() && !i.held.ready[u.GetSource()] && !synced && !reported {
		i.op(u, opAdd, u.GetSource(), true, nil)
	}
}

// settle returns the REMOVEs that have become certain: of pods that a SET lacked, once their source is ready, or once
// all listed sources are ready if their source isn't configured.
//
// A pod that no SET lacked is removed only by podconfigd's own REMOVE, whatever the list of sources says. Where the
// filter or the caller's role hides sources, the list may lack the source for which podconfigd waits before it drops
// the pod. podconfigd serves the pod until then, and sends its REMOVE as for every pod in the request.
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
		i.drop(key)
	}
	var out []*podconfigv1.PodUpdate
	for _, source := range slices.Sorted(maps.Keys(bySource)) {
		out = append(out, &podconfigv1.PodUpdate{Op: opRemove, Source: source, SourceReady: true, Pods: byUID(bySource[source])})
	}
	return out
}
