package stream

import (
	"cmp"
	"maps"
	"slices"

	"google.golang.org/protobuf/proto"

	podconfigv1 "github.com/podstream/podstream/proto/podconfig/v1"
)

// What a request says at most of the pods that are held: podconfigd refuses more pods, and gRPC a message of more than 4 MiB.
const (
	maxKnownPods  = 20_000
	maxKnownBytes = 3 << 20
)

// podKey names a held pod. A UID may pass from one source to another within a revision, so the source belongs to it.
type podKey struct{ source, uid string }

func keyOf(p *podconfigv1.Pod) podKey { return podKey{source: p.GetSource(), uid: p.GetRef().GetUid()} }

// Held is what a consumer holds: enough to resume, and to tell what a SET changes. It keeps references and digests of pods, not
// their content. It is not safe for concurrent use.
type Held struct {
	cursor *podconfigv1.Cursor
	pods   map[podKey]*podconfigv1.KnownPod
	// absent are held pods that a SET didn't have while their source wasn't known to be ready.
	absent map[podKey]bool
	// ready is what the current stream told of each source: a podconfigd that was restarted knows less than the one before.
	ready map[string]bool
	// sources are the configured ones, in order of priority, as the current stream told last.
	sources []string
	// synced is set once the current stream's initial state is complete.
	synced bool
	// settled is set if at the cursor all sources were ready, and the initial state complete: what is held is then what podconfigd
	// had there, and the cursor says it all.
	settled bool
}

// NewHeld returns what a consumer holds from an earlier life: the cursor and the pods that were given together. Nil and none: it
// starts anew.
func NewHeld(cursor *podconfigv1.Cursor, pods []*podconfigv1.KnownPod) *Held {
	h := &Held{
		cursor: cursor, pods: make(map[podKey]*podconfigv1.KnownPod, len(pods)), absent: map[podKey]bool{}, ready: map[string]bool{},
	}
	for _, p := range pods {
		h.pods[podKey{source: p.GetSource(), uid: p.GetUid()}] = p
	}
	return h
}

// Begin forgets what was true of the stream before only, and returns what to ask the next one for: base, with the place to resume
// from and the pods that are held. What was absent from a SET is among them.
//
// More pods than a request can name are left out. Then the cursor must do, and where it doesn't say all of what is held, it is
// replaced by one that no podconfigd honours: a SET comes, and Interpret finds the difference.
func (h *Held) Begin(base *podconfigv1.WatchPodUpdatesRequest) *podconfigv1.WatchPodUpdatesRequest {
	h.ready, h.sources, h.absent, h.synced = map[string]bool{}, nil, map[podKey]bool{}, false
	request := proto.CloneOf(base)
	if request == nil {
		request = &podconfigv1.WatchPodUpdatesRequest{}
	}
	request.ResumeAfter, request.KnownPods = h.cursor, h.Known()
	if !fits(request.KnownPods) {
		request.KnownPods = nil
		if h.cursor == nil || !h.settled {
			request.ResumeAfter = &podconfigv1.Cursor{}
		}
	}
	return request
}

// fits tells whether a request can name the pods.
func fits(pods []*podconfigv1.KnownPod) bool {
	return len(pods) <= maxKnownPods && proto.Size(&podconfigv1.WatchPodUpdatesRequest{KnownPods: pods}) <= maxKnownBytes
}

// Resume is what a later life needs, for NewHeld: the cursor and all pods that are held, as the request that resumes there. It
// changes nothing. It may be more than podconfigd takes: what to send, Begin tells.
func (h *Held) Resume() *podconfigv1.WatchPodUpdatesRequest {
	return &podconfigv1.WatchPodUpdatesRequest{ResumeAfter: h.cursor, KnownPods: h.Known()}
}

// Apply remembers an outcome as applied. It must be that of the last Interpret.
func (h *Held) Apply(o Outcome) {
	for key, p := range o.pods {
		if p == nil {
			delete(h.pods, key)
		} else {
			h.pods[key] = p
		}
	}
	h.ready, h.sources, h.absent, h.synced = o.ready, o.sources, o.absent, o.synced
	h.settled = o.synced && len(o.ready) > 0 && allReady(o.ready)
	h.cursor = o.Cursor
}

// Cursor is the place after all that was applied. Nil: nothing was.
func (h *Held) Cursor() *podconfigv1.Cursor { return h.cursor }

// Known are the held pods, sorted by source and UID.
func (h *Held) Known() []*podconfigv1.KnownPod {
	return slices.SortedFunc(maps.Values(h.pods), func(a, b *podconfigv1.KnownPod) int {
		return cmp.Or(cmp.Compare(a.GetSource(), b.GetSource()), cmp.Compare(a.GetUid(), b.GetUid()))
	})
}

// Ready tells of each source that the current stream spoke of whether it is ready.
func (h *Held) Ready() map[string]bool { return maps.Clone(h.ready) }

// Count is the number of pods that are held of a source.
func (h *Held) Count(source string) int {
	n := 0
	for key := range h.pods {
		if key.source == source {
			n++
		}
	}
	return n
}

// knownPod is what is kept of a pod.
func knownPod(p *podconfigv1.Pod) *podconfigv1.KnownPod {
	return &podconfigv1.KnownPod{
		Uid: p.GetRef().GetUid(), Source: p.GetSource(), Namespace: p.GetRef().GetNamespace(), Name: p.GetRef().GetName(),
		SpecDigest: p.GetSpecDigest(), StatusDigest: p.GetStatusDigest(),
	}
}

// reference is a held pod as REMOVE names it.
func reference(k *podconfigv1.KnownPod) *podconfigv1.Pod {
	return &podconfigv1.Pod{
		Ref:    &podconfigv1.PodRef{Uid: k.GetUid(), Namespace: k.GetNamespace(), Name: k.GetName()},
		Source: k.GetSource(), SpecDigest: k.GetSpecDigest(), StatusDigest: k.GetStatusDigest(),
	}
}
