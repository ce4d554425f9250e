package robustness

import (
	"slices"
	"time"

	"github.com/podstream/podstream/internal/manifest"
	podconfigv1 "github.com/podstream/podstream/proto/podconfig/v1"
)

// at returns when the last message of the unit came.
func (u *unit) at() time.Time { return u.messages[len(u.messages)-1].At }

// forward applies the unit's ops, and checks that none leads back in the API server's time.
func (f *traveller) forward() error {
	behind := f.behind()
	if (behind != "" || isHeld(f.unit.cursor)) && f.ready() {
		return f.broken("the source api is said to be ready, although it is held, or should be: %s", behind)
	}
	before, from := f.pods.clone(), f.moment
	if c := f.unit.cursor; c != nil {
		from = f.oldest(c.GetRevision())
	}
	for _, c := range f.pods.apply(f.unit) {
		api := c.update.GetSource() == apiSource && c.op != podconfigv1.PodOperation_POD_OPERATION_SET
		if c.pod != nil {
			api = c.pod.GetSource() == apiSource
		}
		switch {
		case behind != "" && api:
			return f.broken("%s of the source api, although %s", opName(c.op), behind)
		case behind != "" && before.collides(c.pod):
			return f.broken("%s of a pod that has the name or the UID of a pod of the source api, although %s", opName(c.op), behind)
		case !api || c.pod == nil || c.op == podconfigv1.PodOperation_POD_OPERATION_REMOVE:
		default:
			if err := f.current(c, from); err != nil {
				return err
			}
		}
	}
	return f.removed(before, from)
}

// ready reports whether the unit says that the source api is ready for this consumer.
func (f *traveller) ready() bool {
	return slices.ContainsFunc(f.unit.messages, func(r Received) bool {
		ready := func(s *podconfigv1.SourceReadiness) bool { return s.GetName() == apiSource && s.GetReady() }
		return slices.ContainsFunc(r.Message.GetSynced().GetSources(), ready) ||
			slices.ContainsFunc(r.Message.GetHeartbeat().GetSources(), ready)
	})
}

// collides reports whether the consumer has a pod of the source api with the name or the UID of the pod, which may be nil.
// If it has another source's pod of that name as well, that pod, and its successors, don't collide.
func (r *replica) collides(pod *podconfigv1.Pod) bool {
	ref, collides, both := pod.GetRef(), false, false
	for _, h := range r.pods {
		if pod == nil || h.uid != ref.GetUid() && (h.namespace != ref.GetNamespace() || h.name != ref.GetName()) {
			continue
		}
		collides, both = collides || h.source == apiSource, both || h.source != apiSource
	}
	return collides && !both
}

// removed checks that the API server lacked each pod that the unit removed at some moment, not earlier than from and not
// later than the gateway's; or that a pod of the source file took its name.
func (f *traveller) removed(before *replica, from int) error {
	for uid, h := range before.pods {
		if _, ok := f.pods.pods[uid]; ok || h.source != apiSource || f.life.displaced(h.namespace, h.name, f.unit.at()) {
			continue
		}
		if !f.gateways.Truth.lacked(uid, from, f.now.Moment) {
			return f.broken("%s is removed, which the API server has at every moment from %d to %d", uid, from, f.now.Moment)
		}
	}
	return nil
}

// current checks that the API server had the version of a pod at such a moment.
func (f *traveller) current(c change, from int) error {
	truth, uid := f.gateways.Truth, c.pod.GetRef().GetUid()
	switch {
	case truth.had(uid, c.pod.GetSpecDigest(), c.pod.GetStatusDigest(), from, f.now.Moment):
		return nil
	case truth.lacked(uid, from, from):
		return f.broken("%s of %s, which the API server doesn't have at any moment from %d to %d", opName(c.op), uid, from, f.now.Moment)
	}
	return f.broken("%s of a version of %s that the API server doesn't have at any moment from %d to %d",
		opName(c.op), uid, from, f.now.Moment)
}

// positions checks the positions of a cursor: they don't go back, they aren't later than the gateway's, and those of a held
// source stay.
func (f *traveller) positions(c *podconfigv1.Cursor) error {
	next := claimsOf(c)
	if isHeld(c) {
		if !slices.Equal(positionsText(next), positionsText(f.claims)) {
			return f.broken("the source api is held, and the cursor has the positions %v", positionsText(next))
		}
		return nil
	}
	for _, claim := range f.claims {
		i := slices.IndexFunc(next, func(p *podconfigv1.SourcePosition) bool {
			return p.GetCluster() == claim.GetCluster() || slices.Contains(p.GetReplacedClusters(), claim.GetCluster())
		})
		if i < 0 {
			return f.broken("the cursor has the positions %v: that of the cluster %s is missing", positionsText(next), claim.GetCluster())
		}
		p := next[i]
		if p.GetConfirmed() || p.GetCluster() != claim.GetCluster() {
			continue
		}
		if p.GetEpoch() != claim.GetEpoch() || number(p.GetResourceVersion()) < number(claim.GetResourceVersion()) {
			return f.broken("the cursor has the positions %v, which isn't confirmed", positionsText(next))
		}
	}
	for _, p := range next {
		if err := f.honest(p); err != nil {
			return err
		}
	}
	return nil
}

// honest checks that the gateway is, or was, at the position, unless it is the consumer's own; and that it read the API
// server after the stream began, if it says so. A claim that is from this gateway and stream needs no such reading: the
// gateway saw itself that the history went back.
func (f *traveller) honest(p *podconfigv1.SourcePosition) error {
	text := positionsText([]*podconfigv1.SourcePosition{p})[0]
	truth := f.gateways.Truth
	if p.GetConfirmed() && !f.given && f.now.Moment < truth.Settled(truth.before(f.stream.Begun)) {
		return f.broken("the position %s is said to be confirmed, but the gateway's pods are of moment %d, and the stream began later",
			text, f.now.Moment)
	}
	own := slices.Contains(positionsText(f.claims), text)
	reached := slices.ContainsFunc(f.life.Readings, func(r Reading) bool {
		return !r.At.After(f.unit.at()) && r.Position.Cluster == p.GetCluster() && r.Position.Epoch == p.GetEpoch() &&
			number(r.Position.ResourceVersion) >= number(p.GetResourceVersion())
	})
	if !own && !reached {
		return f.broken("the position %s is later than all of the gateway's", text)
	}
	return nil
}

// rest checks what the consumer has when the gateway had nothing more to send: all pods of the source file, except those
// that collide with pods that it has of the source api. At the end it has all pods of the API server, too.
func (f *traveller) rest(at Rest) error {
	now := f.life.latest(at.At)
	collides := func(p *manifest.Pod) bool {
		return f.pods.collides(&podconfigv1.Pod{Ref: &podconfigv1.PodRef{Uid: string(p.UID), Namespace: p.Namespace, Name: p.Name}})
	}
	if err := f.holds(fileSource, now.File, collides); err != nil || !at.Last {
		return err
	}
	truth := f.gateways.Truth
	var want []*manifest.Pod
	for _, p := range truth.Pods(truth.Now()) {
		if !slices.ContainsFunc(now.File, func(o *manifest.Pod) bool { return o.Namespace == p.Namespace && o.Name == p.Name }) {
			want = append(want, p)
		}
	}
	return f.holds(apiSource, want, func(*manifest.Pod) bool { return false })
}

// holds checks that the consumer has those of the pods of a source that its filter selects, and no others of the source. It
// may lack some.
func (f *traveller) holds(source string, all []*manifest.Pod, may func(*manifest.Pod) bool) error {
	nodes, want := f.stream.Request.GetFilter().GetNodes(), map[string]bool{}
	for _, p := range all {
		if len(nodes) > 0 && !slices.Contains(nodes, p.Spec.NodeName) {
			continue
		}
		want[string(p.UID)] = true
		switch h, ok := f.pods.pods[string(p.UID)]; {
		case !ok && may(p):
		case !ok:
			return f.broken("the gateway has sent all, and the consumer lacks %s (%s) of the source %s", p.UID, p.Name, source)
		case h.source != source || h.spec != p.SpecDigest || h.status != p.StatusDigest:
			return f.broken("the gateway has sent all, and the consumer has another version of %s (%s) of the source %s", p.UID, p.Name, source)
		}
	}
	for uid, h := range f.pods.pods {
		if h.source == source && !want[uid] {
			return f.broken("the gateway has sent all, and the consumer still holds %s (%s) of the source %s", uid, h.name, source)
		}
	}
	return nil
}
