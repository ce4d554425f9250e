package execsvc

import (
	"cmp"
	"maps"
	"slices"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podstream/podstream/internal/execsvc/admit"
	"github.com/podstream/podstream/internal/execsvc/resize"
)

// This file has whose turn it is for room, and what comes of it. Its callers hold the admission's mu.

// contend has the pod among those that want room.
func (a *admission) contend(pod *v1.Pod, last *v1.PodStatus) *contender {
	c := a.waiting[pod.UID]
	if c == nil {
		c = &contender{since: a.now()}
		if pending := conditionOf(last, v1.PodResizePending); pending != nil {
			c.since = pending.LastTransitionTime.Time
		}
		a.waiting[pod.UID] = c
	}
	c.pod = pod
	return c
}

// decideBefore gives those their turn that come before the pod and haven't been decided upon. Where one of them makes room, it begins anew.
func (a *admission) decideBefore(c *contender, node admit.Node) {
	for list := a.before(c); len(list) > 0; list = a.before(c) {
		for freed := a.freed; len(list) > 0 && a.freed == freed; list = list[1:] {
			a.decide(list[0], node)
		}
	}
}

// before are those that come before the pod and haven't been decided upon, in their order. Those that are being ended want no room any more.
func (a *admission) before(c *contender) []*contender {
	var list []*contender
	for _, other := range a.waiting {
		if !other.decided && other != c && !a.ending(other.pod.UID) && a.compare(other, c) < 0 {
			list = append(list, other)
		}
	}
	slices.SortFunc(list, a.compare)
	return list
}

// compare is the order of turns: pods that had room when this agent was restarted, critical ones, resizes, and the others. In the kubelet
// what comes free is for resizes alone, as it offers no pod again.
func (a *admission) compare(x, y *contender) int {
	if by := cmp.Compare(a.rank(x), a.rank(y)); by != 0 {
		return by
	}
	if r, s := a.in[x.pod.UID], a.in[y.pod.UID]; r != nil && s != nil {
		return resize.Compare(resize.Waiting{Pod: x.pod, Allocated: r.pod, Since: x.since}, resize.Waiting{Pod: y.pod, Allocated: s.pod, Since: y.since})
	}
	return admit.Compare(x.pod, y.pod)
}

func (a *admission) rank(c *contender) int {
	switch {
	case a.hadRoom(c.pod):
		return 0
	case a.in[c.pod.UID] != nil:
		return 2
	case admit.Critical(c.pod):
		return 1
	}
	return 3
}

// hadRoom tells whether the pod was admitted in an earlier life of this agent, and hasn't been in this one.
func (a *admission) hadRoom(pod *v1.Pod) bool {
	_, earlier := a.earlier[pod.UID]
	return earlier
}

// decide admits the pod, or decides on its resize, if there is room. One that comes in with what it had in an earlier life stays undecided:
// it is among the resizes then.
func (a *admission) decide(c *contender, node admit.Node) (resize.Decision, verdict) {
	c.decided = true
	uid := c.pod.UID
	if a.in[uid] == nil {
		pod := c.pod
		earlier, had := a.earlier[uid]
		if had {
			pod = earlier.Of(pod)
		}
		v := a.enter(pod, node)
		switch {
		case len(v.Refused) > 0 && !v.MayPass():
			delete(a.waiting, uid)
			return resize.Decision{Pod: pod}, v
		case len(v.Refused) > 0 || len(v.awaited) > 0:
			return resize.Decision{Pod: pod}, v
		case had:
			c.decided = false
			return resize.Decision{Pod: pod}, v
		}
	}
	return a.resize(c, node)
}

// enter takes in a pod if it fits in now, and also beside those for which room is reserved, once it is theirs.
func (a *admission) enter(pod *v1.Pod, node admit.Node) verdict {
	if r := a.reserved[pod.UID]; r != nil {
		// Those that haven't been told to end needn't any more if others have come to.
		maps.DeleteFunc(r.victims, func(victim types.UID, _ bool) bool { return !a.ending(victim) })
	}
	now, later, leaving := a.others(pod.UID)
	v := verdict{Verdict: admit.Check(pod, node, later)}
	if why, refused := a.pressed(pod); refused && !a.hadRoom(pod) && len(v.Refused) == 0 {
		v.Verdict = admit.Verdict{Refused: []admit.Refusal{why}}
	}
	if a.revoke(v.Preempt) {
		return a.enter(pod, node)
	}
	fits := len(v.Refused) == 0 && len(v.Preempt) == 0
	if fits && len(leaving) > 0 {
		soon := admit.Check(pod, node, now)
		fits = len(soon.Refused) == 0 && len(soon.Preempt) == 0
		if !fits && !admit.Critical(pod) {
			v.Verdict = soon
		}
	}
	switch {
	case len(v.Refused) > 0:
		a.unreserve(pod.UID)
	case !fits:
		a.reserve(pod, &v)
	default:
		// Its reservation goes as the room is its own now.
		delete(a.reserved, pod.UID)
		delete(a.earlier, pod.UID)
		a.in[pod.UID] = &room{pod: pod}
		a.remember(pod.UID)
	}
	return v
}

// resize decides on what a pod that is in asks for.
func (a *admission) resize(c *contender, node admit.Node) (resize.Decision, verdict) {
	uid := c.pod.UID
	r := a.in[uid]
	now, later, leaving := a.others(uid)
	in := resize.Input{Pod: c.pod, Allocated: r.pod, Node: node, Others: later, Swaps: a.swaps}
	d := resize.Decide(in)
	if d.Begun && len(leaving) > 0 {
		in.Others = now
		d = resize.Decide(in)
	}
	v := verdict{Verdict: admit.Check(d.Pod, node, []*v1.Pod{d.Pod})}
	if len(v.Refused) > 0 || d.Pending != v1.PodReasonDeferred {
		delete(a.waiting, uid)
	}
	if len(v.Refused) > 0 {
		// What it has become can't run, so nothing is allocated to that.
		return d, v
	}
	was := r.pod
	// Nothing of a pod that its worker knows nothing of has anything else.
	r.pod, r.resizing = d.Pod, r.resizing || d.Begun && r.told != nil
	if d.Begun || was.Generation != d.Pod.Generation {
		a.remember(uid)
	}
	if d.Begun && resize.Grows(was, d.Pod) {
		// It has less of something than before.
		a.anew(uid)
	}
	return d, v
}

// others are the other pods that are in now, those that will be once those that are leaving have left, and these. A pod that ends for a
// critical one doesn't count with that one's reservation: while it is here, the room is its own.
func (a *admission) others(uid types.UID) (now, later, leaving []*v1.Pod) {
	for other, r := range a.in {
		if other == uid {
			continue
		}
		now = append(now, r.pod)
		if a.leaves(other) {
			leaving = append(leaving, r.pod)
		} else {
			later = append(later, r.pod)
		}
	}
	for other, r := range a.reserved {
		if other != uid && !r.victims[uid] {
			later = append(later, r.pod)
		}
	}
	return now, later, leaving
}

// leaves tells whether a pod that is in is being ended, or will be for a critical one.
func (a *admission) leaves(uid types.UID) bool {
	for _, r := range a.reserved {
		if r.victims[uid] {
			return true
		}
	}
	return a.ending(uid)
}

// anew has all but the pod itself looked at again that wait for room: there may be some now.
func (a *admission) anew(uid types.UID) {
	a.freed++
	for other, c := range a.waiting {
		if other != uid {
			c.decided = false
			a.wake(other)
		}
	}
}

// reserve keeps room for a critical pod until those that it is given for have ended, and says in v who has to be told to end and whose end
// it waits for. Those that end anyway come first: then fewer others have to, or none.
func (a *admission) reserve(pod *v1.Pod, v *verdict) {
	r := a.reserved[pod.UID]
	if r == nil {
		r = &reservation{victims: map[types.UID]bool{}}
		a.reserved[pod.UID] = r
	}
	r.pod = pod
	for _, victim := range v.Preempt {
		r.victims[victim] = true
	}
	v.Preempt = nil
	for victim := range r.victims {
		if !a.ending(victim) {
			v.Preempt = append(v.Preempt, victim)
		}
	}
	slices.Sort(v.Preempt)
	_, _, v.awaited = a.others(pod.UID)
}

// revoke takes their room from those of the pods for which it is only reserved: they wait on. It tells whether there were any.
func (a *admission) revoke(uids []types.UID) bool {
	some := false
	for _, uid := range uids {
		if a.reserved[uid] == nil {
			continue
		}
		some = true
		delete(a.reserved, uid)
		if c := a.waiting[uid]; c != nil {
			c.decided = false
			a.wake(uid)
		}
	}
	return some
}

// unreserve gives up the pod's reservation, if there is one.
func (a *admission) unreserve(uid types.UID) {
	if a.reserved[uid] != nil {
		delete(a.reserved, uid)
		a.anew(uid)
	}
}
