package service

import (
	"maps"
	"slices"

	"github.com/podstream/podstream/internal/mergesvc/metrics"
	"github.com/podstream/podstream/internal/mergesvc/objects"
	podconfigv1 "github.com/podstream/podstream/proto/podconfig/v1"
)

// begin sends what takes the consumer from its position to the current state, and then synced.
func (w *objectWatch) begin() error {
	how, now, err := w.toState()
	if err != nil {
		return err
	}
	w.server.metrics.Catchups.WithLabelValues(how).Inc()
	w.log.Info("consumer of objects is synced", "how", how, "revision", w.at.Load())
	return w.sendSynced(now)
}

// toState sends what takes the consumer from its position to the current state, and returns how it did so. open has
// only the unknown objects: while the consumer doesn't read, no object may stay in memory for it.
func (w *objectWatch) toState() (how string, open objects.Snapshot, err error) {
	listed := len(w.known) > 0
	known := slices.DeleteFunc(w.known, func(k knownObject) bool { return w.lacking[k.ref.Source] })
	w.known = nil
	now := w.objects.Current(w.scope)
	open = now.Open()
	at, placed := w.placed()
	switch {
	case placed:
		w.sentCursor = at.Number
		w.at.Store(at.Number)
		// Objects that a SET left open, and that were decided at the consumer's cursor without its having been sent
		// that. This is a unit of its own, as later ones may need the same objects again.
		if _, err := w.send(operations(w.undecided(at, known)), w.cursor()); err != nil {
			return "", open, err
		}
		for w.at.Load() < open.Number {
			if _, _, err := w.follow(); err != nil {
				return "", open, err
			}
			if w.server.isClosing() {
				return "", open, goingDown()
			}
		}
		return metrics.Exact, w.here(open), nil
	case listed:
		w.at.Store(now.Number)
		_, err = w.send(operations(w.difference(now, known)), nil)
		return metrics.Known, open, err
	case w.resume != nil:
		return metrics.Set, open, w.sendSet(now)
	default:
		return metrics.Fresh, open, w.sendSet(now)
	}
}

// placed reports whether the consumer's cursor belongs to this history and view, and returns what it saw there.
func (w *objectWatch) placed() (objects.Snapshot, bool) {
	c := w.resume
	if c == nil || len(w.lacking) > 0 || c.GetInstanceId() != w.objects.Instance() || c.GetView() != w.hash {
		return objects.Snapshot{}, false
	}
	return w.objects.At(c.GetRevision(), w.scope)
}

// here returns what the consumer sees at its position; before, if that has just left the ring.
func (w *objectWatch) here(before objects.Snapshot) objects.Snapshot {
	if now, ok := w.objects.At(w.at.Load(), w.scope); ok {
		return now.Open()
	}
	return before
}

// sendSet sends the whole state, as the start of a catch-up that synced ends.
func (w *objectWatch) sendSet(now objects.Snapshot) error {
	w.at.Store(now.Number)
	_, err := w.send(setOf(now), nil)
	return err
}

func setOf(now objects.Snapshot) []operation {
	set := newOperation(podconfigv1.ObjectOperation_OBJECT_OPERATION_SET)
	missing := newOperation(podconfigv1.ObjectOperation_OBJECT_OPERATION_MISSING)
	for _, item := range now.Items {
		switch item.State {
		case objects.Present:
			set.add(item.Change())
		case objects.Missing:
			missing.add(item.Change())
		}
	}
	if len(missing.rest) == 0 {
		return []operation{set}
	}
	return []operation{set, missing}
}

// sendSynced ends a catch-up.
func (w *objectWatch) sendSynced(now objects.Snapshot) error {
	w.sources = w.readiness(now)
	cursor := w.cursor()
	err := w.out.send(&podconfigv1.WatchObjectsResponse{
		Event: &podconfigv1.WatchObjectsResponse_Synced{Synced: &podconfigv1.Synced{
			Sources: w.sources, Path: w.path(),
		}},
		Cursor: cursor,
	})
	w.arrived(cursor)
	w.synced.Store(true)
	return err
}

// difference returns the changes for a consumer that holds the known objects. Those that aren't decided become
// pending.
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

// undecided makes those of the known objects pending that were open at the consumer's cursor, and returns the REMOVEs
// of those that weren't needed there.
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

// mayNeed reports whether, after a revision of the pods' history, a pod that isn't known yet may refer to an object.
func (w *objectWatch) mayNeed(ref objects.Ref, pods uint64) bool {
	return w.view.Sees(ref.Source) && !w.podsKnown(ref.Source, pods)
}

// podsKnown reports whether all pods of a source are known after a revision of their history: objects that none of
// them refers to aren't needed. The pods of a source that isn't configured any more may exist until all others are
// known.
func (w *objectWatch) podsKnown(source string, pods uint64) bool {
	sources, _ := w.server.history.SourcesAt(pods)
	if sources.Configured(source) {
		return sources.ReadyAt(source, pods)
	}
	return sources.AllReadyAt(pods)
}

// decide returns the REMOVEs of open objects that aren't needed, as is known once a source is ready.
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

// undecidedObjects are objects that the consumer holds and whose value isn't known yet, with their digests.
type undecidedObjects map[objects.Ref]string

// settle removes from a revision's changes what the consumer has already, and what it was never sent.
func (u undecidedObjects) settle(changes []objects.Change) []objects.Change {
	out := make([]objects.Change, 0, len(changes))
	for _, c := range changes {
		digest, open := u[c.Ref]
		delete(u, c.Ref)
		switch {
		case c.Op == objects.Remove && c.Unsent && !open:
		case open && c.Op == objects.Put && c.Object.Digest() == digest:
		case open && c.Op == objects.Absent && digest == "":
		default:
			out = append(out, c)
		}
	}
	return out
}
