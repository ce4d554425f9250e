package robustness

import (
	"maps"
	"slices"
	"time"

	"github.com/podstream/podstream/internal/manifest"
	podconfigv1 "github.com/podstream/podstream/proto/podconfig/v1"
)

// NewRelayRun is NewRun for a podconfigd with one source, a relay. The sets of a relay aren't recorded, so the
// expected state at each revision is what the witness received. The witness is a consumer of the history that
// has no filter, is incremental, receives content, reads everything, and starts without pods after each start
// of the daemon. The checkers compare all other consumers with it. Revisions that the witness missed are
// unknown, as are the revisions of the last moments before a kill. Nothing that depends on them is checked.
func NewRelayRun(h *History, source string, witness *Consumer) *Run {
	r := &Run{History: h, contents: map[*podconfigv1.Pod]content{}}
	for i := range h.Steps {
		step := &h.Steps[i]
		if step.Start != nil {
			r.lives = append(r.lives, &life{
				number: len(r.lives) + 1, start: step, first: step.Revision, last: step.Revision, instances: []string{step.Instance},
				moments: map[uint64]*moment{}, kept: h.revisions(), delivered: map[string]bool{},
			})
		}
	}
	l := &learner{run: r, source: source, versions: map[string]*Pod{}}
	for _, s := range witness.Streams {
		if of := r.lifeOf(s); of != nil {
			l.learn(of, s)
		}
	}
	for _, c := range h.Consumers {
		r.follow(c)
	}
	return r
}

// learner makes moments from the messages of a witness.
type learner struct {
	run    *Run
	source string
	// versions are the last versions of the pods, by UID. at is their revision.
	versions map[string]*Pod
	at       uint64

	// The rest belongs to one start.
	life  *life
	holds *replica
	// first is the first revision that was received, and present the last moment; it is nil before the first.
	first   uint64
	present *moment
}

// learn adds the stream that belongs to one start.
func (l *learner) learn(of *life, s *Stream) {
	if !of.start.Start.Kept {
		l.versions, l.at = map[string]*Pod{}, 0
	}
	l.life, l.holds, l.present = of, newReplica(), nil
	for _, u := range units(s.Received) {
		number := u.cursor.GetRevision()
		if u.cursor == nil && u.heartbeat() {
			number = u.messages[0].Message.GetHeartbeat().GetRevision()
		}
		if u.cursor == nil && !u.heartbeat() {
			return
		}
		if l.present == nil {
			l.begin(number, of.start)
		}
		// No messages came for the revisions in between.
		for n := l.at + 1; n < number; n++ {
			l.put(n, time.Time{}, time.Time{})
		}
		l.take(&u, number, l.holds.apply(&u))
	}
}

// begin prepares for the first unit after a start. The daemon may have a later revision by now than the witness
// received: a pod may then have been removed and added again under its UID, and what was received of it before
// isn't valid.
func (l *learner) begin(number uint64, start *Step) {
	if number != l.at {
		l.versions = map[string]*Pod{}
	}
	l.first, l.at = number, number
	l.present = &moment{number: number, step: start, state: &State{Pods: map[string]*Pod{}}}
}

// take adds the unit of revision number.
func (l *learner) take(u *unit, number uint64, changes []change) {
	for _, c := range changes {
		if c.pod == nil {
			continue
		}
		uid := c.pod.GetRef().GetUid()
		if c.op == podconfigv1.PodOperation_POD_OPERATION_REMOVE {
			delete(l.versions, uid)
			continue
		}
		l.versions[uid] = l.version(c.pod, number)
	}
	var observed time.Time
	for _, up := range u.updates() {
		if at := up.GetObservedTime(); at != nil {
			observed = at.AsTime()
		}
	}
	l.put(number, observed, u.messages[len(u.messages)-1].At)
}

// version returns a pod as the witness received it.
func (l *learner) version(p *podconfigv1.Pod, number uint64) *Pod {
	v := &Pod{
		UID: p.GetRef().GetUid(), Namespace: p.GetRef().GetNamespace(), Name: p.GetRef().GetName(), Source: p.GetSource(),
		SpecDigest: p.GetSpecDigest(), StatusDigest: p.GetStatusDigest(), Stale: p.GetStale(), Changed: number,
	}
	if body := l.run.content(p).pod; body != nil {
		_, v.Mirror = body.Annotations[manifest.MirrorAnnotation]
		v.Deleting, v.Node, v.Labels = body.DeletionTimestamp != nil, body.Spec.NodeName, body.Labels
		v.Seen, _ = time.Parse(time.RFC3339Nano, body.Annotations[manifest.SeenAnnotation])
	}
	if old := l.versions[v.UID]; old != nil && v.continues(old) {
		v.Seen = old.Seen
		if v.same(old) {
			v.Changed = old.Changed
		}
	}
	return v
}

// put adds a moment with all that is known now. A revision after the start comes from a set of the one source.
// From the first of these on, no pod is stale, even if no op reports it.
func (l *learner) put(number uint64, observed, at time.Time) {
	state := &State{Pods: map[string]*Pod{}, Sources: []SourceState{{Name: l.source, Ready: l.holds.ready[l.source]}}}
	for uid, p := range l.versions {
		if p.Stale && number > l.first {
			fresh := *p
			fresh.Stale = false
			p, l.versions[uid] = &fresh, &fresh
		}
		if _, holds := l.holds.pods[uid]; holds {
			state.Pods[uid] = p
		}
	}
	step := l.present.step
	if number > l.at {
		step = &Step{Set: &manifest.Set{Source: l.source, ReadTime: observed}, Begun: at, Ended: at}
		l.life.delivered[l.source] = true
	}
	l.present = &moment{number: number, step: step, state: state}
	l.at, l.life.last = number, max(l.life.last, number)
	l.life.moments[number] = l.present
}

// states returns the states since one start, in order.
func (l *life) states() []*State {
	var out []*State
	for _, number := range slices.Sorted(maps.Keys(l.moments)) {
		out = append(out, l.moments[number].state)
	}
	return out
}
