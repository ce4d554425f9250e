package stream

import (
	"cmp"
	"maps"
	"slices"

	"google.golang.org/protobuf/proto"

	"github.com/podstream/podstream/client/position"
	podconfigv1 "github.com/podstream/podstream/proto/podconfig/v1"
)

// The bounds of known_pods in one request: podconfigd refuses more pods, and gRPC a message of more than 4 MiB.
const (
	maxKnownPods  = 20_000
	maxKnownBytes = 3 << 20
)

// podKey identifies a held pod. It includes the source, as a UID may move from one source to another within a
// revision.
type podKey struct{ source, uid string }

func keyOf(p *podconfigv1.Pod) podKey { return podKey{source: p.GetSource(), uid: p.GetRef().GetUid()} }

// Held is the state of a consumer: the pods that it holds, its cursor, and the readiness of the sources. It keeps the
// references and digests of pods, not their content. It is not safe for concurrent use.
type Held struct {
	cursor *podconfigv1.Cursor
	// claims are the positions in the cursor, and placed is set once a cursor of the current stream was applied.
	claims position.Positions
	placed bool
	pods   map[podKey]*podconfigv1.KnownPod
	// bytes is the size of pods.
	bytes int
	// absent are held pods that a SET lacked while their source wasn't known to be ready.
	absent map[podKey]bool
	// ready is the readiness of each source on the current stream. It starts empty, as a restarted podconfigd has to
	// read its sources again.
	ready map[string]bool
	// heldBack are the sources that podconfigd holds back on the current stream, with its reasons.
	heldBack map[string]string
	// sources are the names of the configured sources, in order of priority, as the current stream last listed them.
	sources []string
	// synced reports whether the current stream's initial state is complete.
	synced bool
	// settled reports whether at the cursor all sources were ready and the initial state was complete. The held pods
	// are then exactly podconfigd's pods at the cursor, and the cursor alone is enough to resume.
	settled bool
}

// NewHeld returns the state of a consumer that stored cursor and pods together. Nil and no pods mean that it starts
// with the current state. If the positions in the cursor aren't valid, they are left out.
func NewHeld(cursor *podconfigv1.Cursor, pods []*podconfigv1.KnownPod) *Held {
	h := &Held{
		cursor: cursor, pods: make(map[podKey]*podconfigv1.KnownPod, len(pods)), absent: map[podKey]bool{}, ready: map[string]bool{},
	}
	for _, p := range pods {
		h.put(podKey{source: p.GetSource(), uid: p.GetUid()}, p)
	}
	h.claims, _ = position.FromProto(cursor.GetPositions())
	if len(h.claims) == 0 && len(cursor.GetPositions()) > 0 {
		h.cursor = proto.CloneOf(cursor)
		h.cursor.Positions = nil
	}
	return h
}

// Begin starts a stream: it discards the readiness of the former stream, and returns the next request, a copy of base
// with the cursor and the held pods. The held pods include those that were absent from a SET. A nil base is an empty
// request.
//
// If the pods exceed the bounds of one request, they are left out. Where the cursor alone isn't enough to resume,
// Begin then sends a cursor with positions and podconfigd's ID alone, which no podconfigd accepts: a SET comes, and Interpret
// computes the difference.
func (h *Held) Begin(base *podconfigv1.WatchPodUpdatesRequest) *podconfigv1.WatchPodUpdatesRequest {
	h.ready, h.sources, h.absent, h.synced = map[string]bool{}, nil, map[podKey]bool{}, false
	h.heldBack, h.placed = nil, false
	request := proto.CloneOf(base)
	if request == nil {
		request = &podconfigv1.WatchPodUpdatesRequest{}
	}
	request.ResumeAfter, request.KnownPods = h.cursor, h.Known()
	if !fits(request.KnownPods) {
		request.KnownPods = nil
		if h.cursor == nil || !h.settled {
			request.ResumeAfter = &podconfigv1.Cursor{Positions: h.cursor.GetPositions(), PodconfigdId: h.cursor.GetPodconfigdId()}
		}
	}
	return request
}

// fits reports whether one request can list the pods.
func fits(pods []*podconfigv1.KnownPod) bool {
	return len(pods) <= maxKnownPods && proto.Size(&podconfigv1.WatchPodUpdatesRequest{KnownPods: pods}) <= maxKnownBytes
}

// Resume returns the cursor and all held pods, as a request, for a consumer that stores them and passes them to
// NewHeld later. It changes nothing. It may exceed the bounds of a request: send only requests from Begin.
func (h *Held) Resume() *podconfigv1.WatchPodUpdatesRequest {
	return &podconfigv1.WatchPodUpdatesRequest{ResumeAfter: h.cursor, KnownPods: h.Known()}
}

// Apply records an outcome as applied. It must be the outcome of the last Interpret.
func (h *Held) Apply(o Outcome) {
	for key, p := range o.pods {
		h.put(key, p)
	}
	h.ready, h.sources, h.absent, h.synced = o.ready, o.sources, o.absent, o.synced
	h.settled = o.synced && len(o.ready) > 0 && allReady(o.ready)
	h.cursor, h.claims, h.placed, h.heldBack = o.Cursor, o.claims, o.placed, o.heldBack
}

// put replaces a held pod. Nil: it isn't held any more.
func (h *Held) put(key podKey, p *podconfigv1.KnownPod) {
	if old := h.pods[key]; old != nil {
		h.bytes -= proto.Size(old) + itemBytes
		delete(h.pods, key)
	}
	if p != nil {
		h.bytes += proto.Size(p) + itemBytes
		h.pods[key] = p
	}
}

// Size returns the number of held pods, and about how many bytes they take.
func (h *Held) Size() (pods, bytes int) { return len(h.pods), h.bytes }

// Cursor returns the position after all applied revisions. Nil means that none was applied.
func (h *Held) Cursor() *podconfigv1.Cursor { return h.cursor }

// Known returns the held pods, sorted by source and UID.
func (h *Held) Known() []*podconfigv1.KnownPod {
	return slices.SortedFunc(maps.Values(h.pods), func(a, b *podconfigv1.KnownPod) int {
		return cmp.Or(cmp.Compare(a.GetSource(), b.GetSource()), cmp.Compare(a.GetUid(), b.GetUid()))
	})
}

// Ready returns the readiness of each source that the current stream has named.
func (h *Held) Ready() map[string]bool { return maps.Clone(h.ready) }

// HeldBack returns the sources that podconfigd holds back on this stream, as it is behind the consumer, with its reasons. They
// aren't ready.
func (h *Held) HeldBack() map[string]string { return maps.Clone(h.heldBack) }

// Count returns the number of held pods of a source.
func (h *Held) Count(source string) int {
	n := 0
	for key := range h.pods {
		if key.source == source {
			n++
		}
	}
	return n
}

// knownPod returns the parts of a pod that are kept.
func knownPod(p *podconfigv1.Pod) *podconfigv1.KnownPod {
	return &podconfigv1.KnownPod{
		Uid: p.GetRef().GetUid(), Source: p.GetSource(), Namespace: p.GetRef().GetNamespace(), Name: p.GetRef().GetName(),
		SpecDigest: p.GetSpecDigest(), StatusDigest: p.GetStatusDigest(),
	}
}

// reference returns a held pod as in a REMOVE.
func reference(k *podconfigv1.KnownPod) *podconfigv1.Pod {
	return &podconfigv1.Pod{
		Ref:    &podconfigv1.PodRef{Uid: k.GetUid(), Namespace: k.GetNamespace(), Name: k.GetName()},
		Source: k.GetSource(), SpecDigest: k.GetSpecDigest(), StatusDigest: k.GetStatusDigest(),
	}
}
