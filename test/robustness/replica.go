package robustness

import (
	"maps"
	"slices"

	podconfigv1 "github.com/podstream/podstream/proto/podconfig/v1"
)

// held is a pod that a consumer has.
type held struct {
	uid, namespace, name, source string
	spec, status                 string
	// undecided is set while the daemon has sent nothing about the pod since its start: the consumer has it
	// from an earlier stream.
	undecided bool
}

// is reports whether it is that version of the pod. Unknown fields count as equal.
func (h held) is(p *Pod, status bool) bool {
	return h.names(p) && h.spec == p.SpecDigest && (!status || h.status == "" || h.status == p.StatusDigest)
}

// names reports whether it is some version of the pod.
func (h held) names(p *Pod) bool {
	return h.uid == p.UID && h.source == p.Source && (h.name == "" || h.name == p.Name && h.namespace == p.Namespace)
}

// replica is a consumer that follows the rules of podconfig.proto.
type replica struct {
	pods map[string]held
	// ready is the readiness of the sources that this stream has reported.
	ready map[string]bool
	// configured are all sources; nil until the stream has listed them.
	configured []string
	// absent are the pods that were missing in a SET and whose source wasn't known to be ready.
	absent map[string]bool
}

func newReplica() *replica {
	return &replica{pods: map[string]held{}, ready: map[string]bool{}, absent: map[string]bool{}}
}

func (r *replica) clone() *replica {
	return &replica{
		pods: maps.Clone(r.pods), ready: maps.Clone(r.ready), configured: slices.Clone(r.configured), absent: maps.Clone(r.absent),
	}
}

// change is one op on one pod, or an op without pods, with the consumer's state before it.
type change struct {
	op     podconfigv1.PodOperation
	update *podconfigv1.PodUpdate
	// pod is nil in an op without pods.
	pod *podconfigv1.Pod
	// before is what the consumer had under that UID; nil for nothing.
	before *held
	// missing is set if the consumer's pod with that UID was missing in a SET, and was kept.
	missing bool
	// open is set if the consumer's pod with that UID was undecided or missing before the unit.
	open bool
}

// begin starts a stream. A restarted daemon has less information than before. Pods that were missing in a SET
// stay in absent: the cursor is past the SET, and when their source is ready, the pods are gone.
func (r *replica) begin() {
	r.ready, r.configured = map[string]bool{}, nil
}

// claims gives the consumer the known pods, all of them undecided.
func (r *replica) claims(known []*podconfigv1.KnownPod) {
	r.drop()
	for _, k := range known {
		r.pods[k.GetUid()] = held{
			uid: k.GetUid(), namespace: k.GetNamespace(), name: k.GetName(), source: k.GetSource(),
			spec: k.GetSpecDigest(), status: k.GetStatusDigest(), undecided: true,
		}
	}
}

// leaves removes the known pods from absent: the consumer sends them, so the daemon decides about them.
func (r *replica) leaves(known []*podconfigv1.KnownPod) {
	for _, k := range known {
		h, ok := r.pods[k.GetUid()]
		if ok && r.absent[k.GetUid()] {
			h.undecided = true
			r.pods[k.GetUid()] = h
			delete(r.absent, k.GetUid())
		}
	}
}

// drop removes all pods of the consumer.
func (r *replica) drop() {
	r.pods, r.absent = map[string]held{}, map[string]bool{}
}

// doubt makes all pods of the consumer undecided.
func (r *replica) doubt() {
	for uid, h := range r.pods {
		h.undecided = true
		r.pods[uid] = h
	}
}

// undecided reports whether the consumer has an undecided pod.
func (r *replica) undecided() bool {
	for _, h := range r.pods {
		if h.undecided {
			return true
		}
	}
	return false
}

// open returns the undecided pods, and the pods that were missing in a SET, by UID.
func (r *replica) open() map[string]bool {
	out := maps.Clone(r.absent)
	for uid, h := range r.pods {
		if h.undecided {
			out[uid] = true
		}
	}
	return out
}

// apply applies the unit, and returns its changes, one for each op and pod.
func (r *replica) apply(u *unit) []change {
	var out []change
	var set map[string]bool
	open := r.open()
	for _, m := range u.messages {
		switch e := m.Message.GetEvent().(type) {
		case *podconfigv1.WatchPodUpdatesResponse_Update:
			if e.Update.GetOp() == podconfigv1.PodOperation_POD_OPERATION_SET {
				if set == nil {
					set = map[string]bool{}
				}
				for _, p := range e.Update.GetPods() {
					set[p.GetRef().GetUid()] = true
				}
			}
			out = append(out, r.update(e.Update)...)
		case *podconfigv1.WatchPodUpdatesResponse_Synced:
			r.readiness(e.Synced.GetSources())
		case *podconfigv1.WatchPodUpdatesResponse_Heartbeat:
			r.readiness(e.Heartbeat.GetSources())
		}
	}
	for i := range out {
		out[i].open = out[i].pod != nil && open[out[i].pod.GetRef().GetUid()]
	}
	if set != nil {
		r.compare(set)
	}
	for uid := range r.absent {
		h, ok := r.pods[uid]
		if ok && r.settled(h.source) {
			delete(r.pods, uid)
		}
		if !ok || r.settled(h.source) {
			delete(r.absent, uid)
		}
	}
	return out
}

// compare records the pods that are missing in a SET.
func (r *replica) compare(set map[string]bool) {
	clear(r.absent)
	for uid := range r.pods {
		if !set[uid] {
			r.absent[uid] = true
		}
	}
}

// settled reports whether a pod of that source that is missing in a SET is gone, as far as the consumer knows.
func (r *replica) settled(source string) bool {
	if r.configured == nil || slices.Contains(r.configured, source) {
		return r.ready[source]
	}
	return !slices.ContainsFunc(r.configured, func(s string) bool { return !r.ready[s] })
}

func (r *replica) readiness(sources []*podconfigv1.SourceReadiness) {
	r.ready, r.configured = map[string]bool{}, []string{}
	for _, s := range sources {
		r.ready[s.GetName()] = s.GetReady()
		r.configured = append(r.configured, s.GetName())
	}
}

func (r *replica) update(u *podconfigv1.PodUpdate) []change {
	r.ready[u.GetSource()] = u.GetSourceReady()
	if len(u.GetPods()) == 0 {
		return []change{{op: u.GetOp(), update: u}}
	}
	var out []change
	for _, p := range u.GetPods() {
		c := change{op: u.GetOp(), update: u, pod: p}
		uid := p.GetRef().GetUid()
		h, ok := r.pods[uid]
		if ok && u.GetOp() == podconfigv1.PodOperation_POD_OPERATION_REMOVE && h.source != p.GetSource() {
			// The op is about another pod with the same UID.
			out = append(out, c)
			continue
		}
		if ok {
			c.missing = r.absent[uid]
			h.undecided = h.undecided || c.missing
			c.before = &h
		}
		out = append(out, c)
		delete(r.absent, uid)
		if u.GetOp() == podconfigv1.PodOperation_POD_OPERATION_REMOVE {
			delete(r.pods, uid)
			continue
		}
		r.pods[uid] = held{
			uid: uid, namespace: p.GetRef().GetNamespace(), name: p.GetRef().GetName(), source: p.GetSource(),
			spec: p.GetSpecDigest(), status: p.GetStatusDigest(),
		}
	}
	return out
}
