package service

import (
	"maps"
	"slices"

	"github.com/podstream/podstream/internal/mergesvc/metrics"
	"github.com/podstream/podstream/internal/mergesvc/objects"
	podconfigv1 "github.com/podstream/podstream/proto/podconfig/v1"
)

// begin takes the consumer from where it says it is to the current state, and says so.
func (w *objectWatch) begin() error {
	known := w.known
	w.known = nil
	now := w.objects.Current(w.scope)
	how := metrics.Fresh
	at, placed := w.placed()
	switch {
	case placed:
		how, w.told = metrics.Exact, at.Number
		w.at.Store(at.Number)
		// What a SET left open and was decided where the consumer is, if it hasn't heard it: a unit of its own, as what comes may need
		// the same objects again.
		if _, err := w.send(operations(w.undecided(at, known)), w.cursor()); err != nil {
			return err
		}
		for w.at.Load() < now.Number {
			if _, _, err := w.follow(); err != nil {
				return err
			}
			if w.server.isClosing() {
				return goingDown()
			}
		}
		now = w.here(now)
	case len(known) > 0:
		how = metrics.Known
		w.at.Store(now.Number)
		if _, err := w.send(operations(w.difference(now, known)), nil); err != nil {
			return err
		}
	default:
		if w.resume != nil {
			how = metrics.Set
		}
		if err := w.sendSet(now); err != nil {
			return err
		}
	}
	w.server.metrics.Catchups.WithLabelValues(how).Inc()
	w.log.Info("consumer of objects is synced", "how", how, "revision", w.at.Load(), "objects", len(now.Items))
	return w.sendSynced(now)
}

// placed tells whether the consumer's cursor belongs to this history and view, and what it saw there.
func (w *objectWatch) placed() (objects.Snapshot, bool) {
	c := w.resume
	if c == nil || c.GetInstanceId() != w.objects.Instance() || c.GetView() != w.view.Hash() {
		return objects.Snapshot{}, false
	}
	return w.objects.At(c.GetRevision(), w.scope)
}

// here is what the consumer sees where it is; if the ring has moved on in this moment, what it saw before.
func (w *objectWatch) here(before objects.Snapshot) objects.Snapshot {
	if now, ok := w.objects.At(w.at.Load(), w.scope); ok {
		return now
	}
	return before
}

// sendSet sends everything, as the beginning of a catch-up that synced ends.
func (w *objectWatch) sendSet(now objects.Snapshot) error {
	w.at.Store(now.Number)
	set := operation{op: podconfigv1.ObjectOperation_OBJECT_OPERATION_SET}
	missing := operation{op: podconfigv1.ObjectOperation_OBJECT_OPERATION_MISSING}
	for _, item := range now.Items {
		switch item.State {
		case objects.Present:
			set.changes = append(set.changes, item.Change())
		case objects.Missing:
			missing.changes = append(missing.changes, item.Change())
		}
	}
	ops := []operation{set}
	if len(missing.changes) > 0 {
		ops = append(ops, missing)
	}
	_, err := w.send(ops, nil)
	return err
}

// sendSynced ends a catch-up.
func (w *objectWatch) sendSynced(now objects.Snapshot) error {
	w.sources = w.readiness(now)
	cursor := w.cursor()
	err := w.out.send(&podconfigv1.WatchObjectsResponse{
		Event: &podconfigv1.WatchObjectsResponse_Synced{Synced: &podconfigv1.Synced{
			Sources: w.sources, Path: w.server.cfg.Path(),
		}},
		Cursor: cursor,
	})
	w.arrived(cursor)
	w.synced.Store(true)
	return err
}

// difference is what has to be told to a consumer that holds what is known. What nobody can tell of yet stays open.
func (w *objectWatch) difference(now objects.Snapshot, known []knownObject) []objects.Change {
	w.pending = undecidedObjects{}
	held := make(map[objects.Ref]string, len(known))
	for _, k := range known {
		held[k.ref] = k.digest
	}
	var out []objects.Change
	for _, item := range now.Items {
		digest, ok := held[item.Ref]
		delete(held, item.Ref)
		switch {
		case item.State == objects.Unknown && ok:
			w.pending[item.Ref] = digest
		case item.State == objects.Unknown, ok && item.Has(digest):
		default:
			out = append(out, item.Change())
		}
	}
	var gone []objects.Change
	for _, ref := range slices.SortedFunc(maps.Keys(held), objects.Ref.Compare) {
		if w.mayNeed(ref, now.Pods) {
			w.pending[ref] = held[ref]
			continue
		}
		gone = append(gone, objects.Change{Op: objects.Remove, Ref: ref})
	}
	return objects.InOrder(append(gone, out...))
}

// undecided notes which of the known objects were open where the consumer's cursor is, and returns the REMOVEs of those that weren't
// needed there.
func (w *objectWatch) undecided(at objects.Snapshot, known []knownObject) []objects.Change {
	w.pending = undecidedObjects{}
	items := make(map[objects.Ref]objects.Item, len(at.Items))
	for _, item := range at.Items {
		items[item.Ref] = item
	}
	var gone []objects.Change
	for _, k := range known {
		switch item, visible := items[k.ref]; {
		case visible && item.State == objects.Unknown, !visible && w.mayNeed(k.ref, at.Pods):
			w.pending[k.ref] = k.digest
		case !visible:
			gone = append(gone, objects.Change{Op: objects.Remove, Ref: k.ref})
		}
	}
	slices.SortFunc(gone, func(a, b objects.Change) int { return a.Ref.Compare(b.Ref) })
	return slices.CompactFunc(gone, func(a, b objects.Change) bool { return a.Ref == b.Ref })
}

// mayNeed tells whether a pod that isn't known yet may refer to an object, after a revision of the pods' history.
func (w *objectWatch) mayNeed(ref objects.Ref, pods uint64) bool {
	return w.view.Sees(ref.Source) && !w.podsKnown(ref.Source, pods)
}

// podsKnown tells whether all pods of a source are known after a revision of their history: what none of them refers to isn't needed.
// Those of a source that isn't configured any more may be until all others are known.
func (w *objectWatch) podsKnown(source string, pods uint64) bool {
	sources, _ := w.server.history.SourcesAt(pods)
	if sources.Configured(source) {
		return sources.ReadyAt(source, pods)
	}
	return sources.AllReadyAt(pods)
}

// decide returns the REMOVEs of open objects that are known, since a source has become ready, not to be needed.
func (w *objectWatch) decide(pods uint64) []objects.Change {
	if len(w.pending) == 0 {
		return nil
	}
	at, ok := w.objects.At(w.at.Load(), w.scope)
	if !ok {
		return nil
	}
	needed := map[objects.Ref]bool{}
	for _, item := range at.Items {
		needed[item.Ref] = true
	}
	var out []objects.Change
	for _, ref := range slices.SortedFunc(maps.Keys(w.pending), objects.Ref.Compare) {
		if !needed[ref] && w.podsKnown(ref.Source, pods) {
			delete(w.pending, ref)
			out = append(out, objects.Change{Op: objects.Remove, Ref: ref})
		}
	}
	return out
}

// undecidedObjects are objects that the consumer holds and that nobody can tell of yet, with their digests.
type undecidedObjects map[objects.Ref]string

// settle leaves out of a revision's changes what the consumer has already, and what it never heard of.
func (u undecidedObjects) settle(changes []objects.Change) []objects.Change {
	out := make([]objects.Change, 0, len(changes))
	for _, c := range changes {
		digest, open := u[c.Ref]
		delete(u, c.Ref)
		switch {
		case c.Op == objects.Remove && c.Untold && !open:
		case open && c.Op == objects.Put && c.Object.Digest() == digest:
		case open && c.Op == objects.Absent && digest == "":
		default:
			out = append(out, c)
		}
	}
	return out
}
