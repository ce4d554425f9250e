package client

import (
	"maps"
	"slices"

	"k8s.io/apimachinery/pkg/types"

	podconfigv1 "github.com/podstream/podstream/proto/podconfig/v1"
)

// held is what the consumer has applied: enough to resume, and to tell what a SET changes.
type held struct {
	cursor *podconfigv1.Cursor
	// pods are without their Objects.
	pods map[types.UID]Pod
	// ready are the sources known to be ready in the current stream.
	ready map[string]bool
	// absent are pods that a SET didn't have, of sources that weren't known to be ready then.
	absent map[types.UID]bool
}

func newHeld(opts WatchOptions) *held {
	h := &held{cursor: opts.ResumeAfter, pods: map[types.UID]Pod{}, ready: map[string]bool{}, absent: map[types.UID]bool{}}
	for _, p := range opts.Known {
		p.Object = nil
		h.pods[p.UID] = p
	}
	return h
}

// startStream forgets what was true of the stream before only: a podconfigd that was restarted knows less than the one before,
// and what was absent from its SET is among the known pods that the new one is told of.
func (h *held) startStream() {
	clear(h.ready)
	clear(h.absent)
}

// known are the held pods as the request carries them.
func (h *held) known() []*podconfigv1.KnownPod {
	var out []*podconfigv1.KnownPod
	for _, uid := range slices.Sorted(maps.Keys(h.pods)) {
		p := h.pods[uid]
		out = append(out, &podconfigv1.KnownPod{
			Uid: string(uid), Source: p.Source, Namespace: p.Namespace, Name: p.Name,
			SpecDigest: p.SpecDigest, StatusDigest: p.StatusDigest,
		})
	}
	return out
}

// interpret returns the event's ops with each SET turned into what it changes, and with the removals that became certain.
func (h *held) interpret(e Event) []Change {
	if e.Synced {
		h.ready = map[string]bool{}
	}
	for _, s := range e.Sources {
		h.ready[s.Name] = s.Ready
	}
	var out []Change
	var set *Change
	removed := map[types.UID]bool{}
	for _, c := range e.Ops {
		h.ready[c.Source] = c.SourceReady
		if c.Op == podconfigv1.PodOperation_POD_OPERATION_SET {
			// A large SET comes in fragments.
			if set == nil {
				set = &Change{}
			}
			set.Pods = append(set.Pods, c.Pods...)
			continue
		}
		for i, p := range c.Pods {
			delete(h.absent, p.UID)
			removed[p.UID] = c.Op == Remove
			// What podconfigd knows only from our own word comes back without a name.
			if old, ok := h.pods[p.UID]; ok && c.Op == Remove && p.Name == "" {
				c.Pods[i] = old
			}
		}
		out = append(out, c)
	}
	if set != nil {
		out = append(out, h.expand(*set, removed)...)
	}
	return append(h.removals(), out...)
}

// expand compares a SET with what is held, by source and UID. removed are the pods that the same event has taken away already.
func (h *held) expand(set Change, removed map[types.UID]bool) []Change {
	bySource := map[Op]map[string][]Pod{Remove: {}, Add: {}, Update: {}, Delete: {}, Reconcile: {}}
	seen := map[types.UID]bool{}
	for _, p := range set.Pods {
		seen[p.UID] = true
		delete(h.absent, p.UID)
		old, ok := h.pods[p.UID]
		op := Add
		switch {
		case !ok || removed[p.UID]:
		case old.Source != p.Source || old.Namespace != p.Namespace || old.Name != p.Name:
			// Another source's pod, or one with another name, is another pod, even under one UID.
			bySource[Remove][old.Source] = append(bySource[Remove][old.Source], old)
		case old.SpecDigest == p.SpecDigest && old.StatusDigest == p.StatusDigest:
			continue
		case old.SpecDigest == p.SpecDigest:
			op = Reconcile
		case p.Object.DeletionTimestamp != nil:
			op = Delete
		default:
			op = Update
		}
		bySource[op][p.Source] = append(bySource[op][p.Source], p)
	}
	for uid := range h.pods {
		if !seen[uid] && !removed[uid] {
			h.absent[uid] = true
		}
	}
	var out []Change
	for _, op := range []Op{Remove, Add, Update, Delete, Reconcile} {
		for _, source := range slices.Sorted(maps.Keys(bySource[op])) {
			out = append(out, Change{Op: op, Source: source, SourceReady: h.ready[source], Pods: bySource[op][source]})
		}
	}
	return out
}

// removals are the absent pods whose source is ready, as REMOVE.
func (h *held) removals() []Change {
	gone := map[string][]Pod{}
	for _, uid := range slices.Sorted(maps.Keys(h.absent)) {
		if p := h.pods[uid]; h.ready[p.Source] {
			gone[p.Source] = append(gone[p.Source], p)
			delete(h.absent, uid)
		}
	}
	var out []Change
	for _, source := range slices.Sorted(maps.Keys(gone)) {
		out = append(out, Change{Op: Remove, Source: source, SourceReady: true, Pods: gone[source]})
	}
	return out
}

// applied remembers what the consumer took.
func (h *held) applied(e Event) {
	for _, c := range e.Ops {
		for _, p := range c.Pods {
			if c.Op == Remove {
				delete(h.pods, p.UID)
				continue
			}
			p.Object = nil
			h.pods[p.UID] = p
		}
	}
	if e.Cursor != nil {
		h.cursor = e.Cursor
	}
}
