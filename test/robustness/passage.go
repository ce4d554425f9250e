package robustness

import (
	"fmt"
	"maps"
	"slices"
)

// kind is the way in which a unit updates its consumer.
type kind int

const (
	// mark: it has no ops. It is SYNCED or a heartbeat.
	mark kind = iota
	// fresh: all pods, for a consumer that held nothing.
	fresh
	// difference: against the known_pods.
	difference
	// set: all pods, for a consumer whose pods are unknown.
	set
	// coalesced: the changes of each pod since the consumer's cursor. A consumer that is far behind may get a
	// SET instead.
	coalesced
	// exact: one revision.
	exact
)

func (k kind) String() string {
	return [...]string{"mark", "fresh start", "difference to known_pods", "SET", "coalesced catch-up", "exact history"}[k]
}

// catchUp reports whether the unit updates a consumer that had pods before, other than by exact history.
func (k kind) catchUp() bool { return k == difference || k == set || k == coalesced }

// passage is one unit, with the consumer's pods before it and the pods that it should have after it.
type passage struct {
	consumer *Consumer
	stream   *Stream
	// nth is the number of the stream among the consumer's streams, from 1.
	nth  int
	life *life
	view *view
	unit unit
	kind kind
	// placed is set if the consumer was at revision from, since this start of the daemon or since an earlier
	// start with the same store.
	placed bool
	from   uint64
	// opening is set until the stream is synced.
	opening bool
	// mends is set if the unit before was a mixture of revisions.
	mends bool
	// moment is the expected state after the unit. It is nil if the unit isn't complete, or if there should be
	// no such revision.
	moment *moment
	// open are the consumer's undecided pods before the unit, as replica.open returns them.
	open    map[string]bool
	changes []change
	// faults are the differences between the consumer's pods and the expected ones.
	faults []fault
}

// fault is one pod that a consumer has and shouldn't, should have and lacks, or has in another version.
type fault struct {
	uid  string
	held *held
	want *Pod
}

func (f fault) String() string {
	switch {
	case f.held == nil:
		return "the consumer lacks " + describe(f.want)
	case f.want == nil:
		return fmt.Sprintf("the consumer holds %s %s/%s of %s, which it shouldn't any more",
			f.held.uid, f.held.namespace, f.held.name, f.held.source)
	default:
		return fmt.Sprintf("the consumer holds %s %s/%s of %s with spec %s and status %s; want %s",
			f.held.uid, f.held.namespace, f.held.name, f.held.source, short(f.held.spec), short(f.held.status), describe(f.want))
	}
}

// to returns the consumer's revision after the unit: the revision of its cursor or of a heartbeat. It returns
// zero if the stream broke off.
func (p *passage) to() uint64 {
	if p.unit.cursor == nil && p.unit.heartbeat() {
		return p.unit.messages[0].Message.GetHeartbeat().GetRevision()
	}
	return p.unit.cursor.GetRevision()
}

// ended reports whether the unit is complete.
func (p *passage) ended() bool { return p.unit.cursor != nil || p.unit.heartbeat() }

// place is a consumer's cursor, and its pods there.
type place struct {
	instance, view string
	revision       uint64
}

// follow applies all streams of a consumer.
func (r *Run) follow(c *Consumer) {
	now := newReplica()
	saved := map[place]*replica{}
	for i, s := range c.Streams {
		l := r.lifeOf(s)
		if l == nil {
			continue
		}
		w := &walk{run: r, consumer: c, stream: s, nth: i + 1, life: l, view: newView(s.Request), saved: saved}
		now = w.follow(now)
	}
}

// walk applies one stream of a consumer.
type walk struct {
	run      *Run
	consumer *Consumer
	stream   *Stream
	nth      int
	life     *life
	view     *view
	saved    map[place]*replica
	at       uint64
	placed   bool
	synced   bool
	// mixed is set after a unit that was a mixture of revisions.
	mixed bool
}

// follow applies the stream and returns the consumer's pods at the end. Messages without a cursor at their end
// are dropped.
func (w *walk) follow(now *replica) *replica {
	us := units(w.stream.Received)
	now = w.subscribe(now, us)
	for _, u := range us {
		p := w.passage(u, now)
		after := now.clone()
		p.changes = after.apply(&u)
		w.run.passages = append(w.run.passages, p)
		if !p.ended() {
			continue
		}
		// A heartbeat without a cursor changes nothing: a mixture before it is still a mixture after it.
		if w.mixed = u.mixed() || w.mixed && u.cursor == nil; w.mixed {
			// This set of pods was never the state at any time. What follows on a held one is a difference.
			p.moment = nil
		} else if p.moment = w.life.moments[p.to()]; p.moment != nil {
			p.faults = w.compare(after, p.moment.state)
		}
		now = after
		if u.cursor == nil {
			continue
		}
		w.at, w.placed, w.synced = p.to(), !isHeld(u.cursor), w.synced || u.synced()
		w.saved[place{u.cursor.GetInstanceId(), u.cursor.GetView(), u.cursor.GetRevision()}] = now.clone()
	}
	return now
}

// subscribe returns the consumer's pods at the start of the stream, from its request and the daemon's answer.
func (w *walk) subscribe(now *replica, us []unit) *replica {
	req := w.stream.Request
	resume := req.GetResumeAfter()
	if old := w.saved[place{resume.GetInstanceId(), resume.GetView(), resume.GetRevision()}]; resume != nil && old != nil {
		now = old.clone()
	}
	now.begin()
	first := slices.IndexFunc(us, func(u unit) bool { return u.cursor != nil })
	if resume != nil && first >= 0 {
		c := us[first].cursor
		// The daemon must honour a cursor that it issued, with this view, if it isn't later than the position
		// from which the stream continues.
		w.placed = slices.Contains(w.life.instances, resume.GetInstanceId()) && resume.GetView() == c.GetView() && !isHeld(resume) &&
			resume.GetRevision() <= c.GetRevision()
	}
	switch {
	case w.placed:
		w.at = resume.GetRevision()
		now.leaves(req.GetKnownPods())
	case len(req.GetKnownPods()) > 0:
		now.claims(req.GetKnownPods())
	case resume == nil:
		now.drop()
	default:
		now.doubt()
	}
	return now
}

func (w *walk) passage(u unit, now *replica) *passage {
	p := &passage{
		consumer: w.consumer, stream: w.stream, nth: w.nth, life: w.life, view: w.view, unit: u,
		placed: w.placed, from: w.at, opening: !w.synced, open: now.open(), mends: w.mixed,
	}
	switch {
	case len(u.updates()) == 0:
		p.kind = mark
	case u.observed():
		p.kind = exact
	case w.placed:
		p.kind = coalesced
	case len(w.stream.Request.GetKnownPods()) > 0:
		p.kind = difference
	case w.stream.Request.GetResumeAfter() != nil:
		p.kind = set
	default:
		p.kind = fresh
	}
	return p
}

// compare returns how the replica differs from the expected pods, and corrects it, so that one fault isn't
// reported again for every later unit. Pods from an earlier stream may stay as they are until their source is
// ready.
func (w *walk) compare(r *replica, state *State) []fault {
	var out []fault
	uids := maps.Clone(r.pods)
	for uid := range state.Pods {
		uids[uid] = held{}
	}
	for _, uid := range slices.Sorted(maps.Keys(uids)) {
		h, holds := r.pods[uid]
		want := w.view.pod(state, uid)
		switch {
		case !holds && want == nil:
		case !holds:
			out = append(out, fault{uid: uid, want: want})
		case want == nil:
			// A pod that is missing in a SET may stay until the stream reports that it is gone.
			if keeps := r.absent[uid] && !r.settled(h.source); keeps || h.undecided && !w.settled(state, h.source) {
				continue
			}
			// A consumer itself removes a pod whose source isn't in its view.
			if !h.undecided || state.configured(h.source) && w.view.sees(h.source) {
				out = append(out, fault{uid: uid, held: &h})
			}
			delete(r.pods, uid)
			continue
		case h.is(want, !w.view.snapshots()):
		case h.undecided && !w.settled(state, want.Source):
			continue
		default:
			out = append(out, fault{uid: uid, held: &h, want: want})
		}
		if want == nil {
			continue
		}
		r.pods[uid] = held{
			uid: uid, namespace: want.Namespace, name: want.Name, source: want.Source, spec: want.SpecDigest, status: want.StatusDigest,
		}
		if w.view.snapshots() && h.status != "" {
			// This mode doesn't report a status.
			now := r.pods[uid]
			now.status = h.status
			r.pods[uid] = now
		}
	}
	return out
}

// settled reports whether a pod of that source that isn't in the view is gone for good, as far as a consumer
// with this view can see.
func (w *walk) settled(state *State, source string) bool {
	if w.view.sees(source) {
		return state.settled(source)
	}
	return !slices.ContainsFunc(state.Sources, func(s SourceState) bool { return w.view.sees(s.Name) && !s.Ready })
}
