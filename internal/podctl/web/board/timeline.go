package board

import (
	"cmp"
	"maps"
	"slices"
	"sync"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/podstream/podstream/internal/podctl/web/feed"
	podwebv1 "github.com/podstream/podstream/internal/podctl/web/proto/podweb/v1"
	podconfigv1 "github.com/podstream/podstream/proto/podconfig/v1"
)

// The bounds of the timeline.
const (
	maxRevisions     = 50_000
	maxRevisionBytes = 64 << 20
)

// Entry is an entry of the timeline. It is never changed.
type Entry struct {
	Revision *podwebv1.Revision
	// effects are those on the desired pods, in order, complete.
	effects []effect
}

// Concerns reports whether the entry has the pod.
func (e *Entry) Concerns(podKey string) bool {
	return slices.ContainsFunc(e.effects, func(e effect) bool { return e.key == podKey })
}

// effect is the effect of a revision on one pod.
type effect struct {
	key     string
	ref     *podconfigv1.PodRef
	source  string
	digest  string
	removed bool
	// appeared is set if the pod wasn't there before.
	appeared bool
}

// Timeline is the log of what podconfigd published. One goroutine adds to it; any number reads.
type Timeline struct {
	Log *feed.Log[*Entry]
	// Begin is where it begins.
	Begin *feed.Value[*podwebv1.TimelineBegin]

	mu sync.Mutex
	// base are the desired pods before the first entry, by key.
	base map[string]effect
}

func newTimeline(cfg Config) *Timeline {
	t := &Timeline{base: map[string]effect{}, Begin: feed.NewValue(&podwebv1.TimelineBegin{})}
	most := cfg.TimelineBytes
	if most == 0 {
		most = maxRevisionBytes
	}
	t.Log = feed.NewLog(maxRevisions, most, t.dropped)
	return t
}

// dropped moves an entry into the base.
func (t *Timeline) dropped(e *Entry) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, f := range e.effects {
		if f.removed {
			delete(t.base, f.key)
		} else {
			t.base[f.key] = f
		}
	}
}

// add appends an entry.
func (t *Timeline) add(e *Entry) {
	_, last := t.Log.Bounds()
	e.Revision.Sequence = last + 1
	size := proto.Size(e.Revision)
	for _, f := range e.effects {
		const fixed = 128
		size += fixed + len(f.ref.GetNamespace()) + len(f.ref.GetName()) + len(f.ref.GetUid())
	}
	t.Log.Append(e, size)
	t.moveBegin()
}

// moveBegin updates Begin to the first entry that is kept.
func (t *Timeline) moveBegin() {
	var first *podwebv1.Revision
	t.Log.Each(func(_ uint64, e *Entry) bool {
		first = e.Revision
		return false
	})
	begin, _ := t.Begin.Get()
	if first == nil || begin.GetSequence() == first.GetSequence() {
		return
	}
	reason := begin.GetReason()
	if begin.GetSequence() != 0 {
		reason = "podctl web keeps no earlier revisions: this is as much as it holds"
	}
	t.Begin.Set(&podwebv1.TimelineBegin{Sequence: first.GetSequence(), Revision: first.GetRevision(), Time: first.GetTime(), Reason: reason})
}

// BeginsBecause sets why there is nothing before the first entry, which is yet to come.
func (t *Timeline) BeginsBecause(reason string, at *timestamppb.Timestamp) {
	t.Begin.Change(func(old *podwebv1.TimelineBegin) *podwebv1.TimelineBegin {
		out := proto.CloneOf(old)
		out.Reason = reason
		if out.GetSequence() == 0 {
			out.Time = at
		}
		return out
	})
}

// DesiredAt returns the pods that were desired after the entry with that sequence, by namespace and name. It reports whether
// the entry is kept.
func (t *Timeline) DesiredAt(sequence uint64) ([]*podwebv1.DesiredPod, bool) {
	type state struct {
		effect
		changed uint64
	}
	pods, found := map[string]state{}, false
	t.Log.Each(func(number uint64, e *Entry) bool {
		if len(pods) == 0 && !found {
			t.mu.Lock()
			for key, f := range t.base {
				pods[key] = state{effect: f}
			}
			t.mu.Unlock()
			found = number <= sequence
		}
		if number > sequence {
			return false
		}
		for _, f := range e.effects {
			if f.removed {
				delete(pods, f.key)
			} else {
				pods[f.key] = state{f, number}
			}
		}
		found = number == sequence
		return !found
	})
	if !found {
		return nil, false
	}
	all := slices.SortedFunc(maps.Values(pods), func(a, b state) int {
		return cmp.Or(cmp.Compare(a.ref.GetNamespace(), b.ref.GetNamespace()), cmp.Compare(a.ref.GetName(), b.ref.GetName()),
			cmp.Compare(a.key, b.key))
	})
	out := make([]*podwebv1.DesiredPod, len(all))
	for i, s := range all {
		out[i] = &podwebv1.DesiredPod{
			Key: s.key, Name: Name(s.ref), Source: s.source, SpecDigest: shortDigest(s.digest), ChangedSequence: s.changed,
		}
	}
	return out, true
}

// rebase sets the base so that the entries lead to these pods. The entries are all that the Log has.
func (t *Timeline) rebase(now map[string]effect) {
	base := maps.Clone(now)
	var entries []*Entry
	t.Log.Each(func(_ uint64, e *Entry) bool {
		entries = append(entries, e)
		return true
	})
	for _, e := range slices.Backward(entries) {
		for _, f := range slices.Backward(e.effects) {
			switch {
			case f.appeared:
				delete(base, f.key)
			case f.removed:
				f.removed = false
				base[f.key] = f
			default:
				// Its version before isn't known.
				f.digest = ""
				base[f.key] = f
			}
		}
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.base = base
}
