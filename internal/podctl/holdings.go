package podctl

import (
	"cmp"
	"maps"
	"slices"

	podconfigv1 "github.com/podstream/podstream/proto/podconfig/v1"
)

// podKey names a held pod. The same UID may pass from one source to another within a revision, so the source belongs to it.
type podKey struct{ source, uid string }

// holdings is what a watcher has been told so far: what it can resume from when the stream breaks. It follows the duties of a
// consumer that podconfig.v1 lists. The zero value is not usable; see newHoldings.
type holdings struct {
	cursor *podconfigv1.Cursor // nil before the first revision
	pods   map[podKey]*podconfigv1.KnownPod
	// missing are held pods that were not in the last SET while their source wasn't known to be ready.
	missing map[podKey]bool
	// ready tells of each source whether it is ready. It is podconfigd's word on the current stream only: a podconfigd that
	// was restarted in between knows less than the one before.
	ready  map[string]bool
	synced bool // on the current stream
}

func newHoldings() *holdings {
	return &holdings{
		pods:    map[podKey]*podconfigv1.KnownPod{},
		missing: map[podKey]bool{},
		ready:   map[string]bool{},
	}
}

// startStream forgets what was true of the stream before only.
func (h *holdings) startStream() {
	h.ready = map[string]bool{}
	h.synced = false
}

// apply takes one op of a revision.
func (h *holdings) apply(u *podconfigv1.PodUpdate) {
	if u.GetSource() != "" {
		h.ready[u.GetSource()] = u.GetSourceReady()
	}
	switch u.GetOp() {
	case podconfigv1.PodOperation_POD_OPERATION_REMOVE:
		for _, p := range u.GetPods() {
			h.drop(keyOf(p))
		}
	case podconfigv1.PodOperation_POD_OPERATION_SET:
		for key := range h.pods {
			h.missing[key] = true
		}
		h.hold(u.GetPods())
	default:
		h.hold(u.GetPods())
	}
	h.dropMissing()
}

// sync takes the readiness of all configured sources, as synced and heartbeats tell it.
func (h *holdings) sync(sources []*podconfigv1.SourceReadiness) {
	h.synced = true
	h.ready = make(map[string]bool, len(sources))
	allReady := true
	for _, s := range sources {
		h.ready[s.GetName()] = s.GetReady()
		allReady = allReady && s.GetReady()
	}
	h.dropMissing()
	if !allReady {
		return
	}
	// Nobody will ever remove the pods of a source that isn't configured any more.
	for key := range h.pods {
		if _, configured := h.ready[key.source]; !configured {
			h.drop(key)
		}
	}
}

// count is the number of pods held of a source.
func (h *holdings) count(source string) int {
	n := 0
	for key := range h.pods {
		if key.source == source {
			n++
		}
	}
	return n
}

// known lists the pods in a fixed order.
func (h *holdings) known() []*podconfigv1.KnownPod {
	return slices.SortedFunc(maps.Values(h.pods), func(a, b *podconfigv1.KnownPod) int {
		return cmp.Or(cmp.Compare(a.GetSource(), b.GetSource()), cmp.Compare(a.GetUid(), b.GetUid()))
	})
}

func (h *holdings) hold(pods []*podconfigv1.Pod) {
	for _, p := range pods {
		key := keyOf(p)
		h.pods[key] = &podconfigv1.KnownPod{
			Uid: key.uid, Source: key.source, Namespace: p.GetRef().GetNamespace(), Name: p.GetRef().GetName(),
			SpecDigest: p.GetSpecDigest(), StatusDigest: p.GetStatusDigest(),
		}
		delete(h.missing, key)
	}
}

// dropMissing drops what was missing from a SET, of the sources that are ready by now.
func (h *holdings) dropMissing() {
	for key := range h.missing {
		if h.ready[key.source] {
			h.drop(key)
		}
	}
}

func (h *holdings) drop(key podKey) {
	delete(h.pods, key)
	delete(h.missing, key)
}

func keyOf(p *podconfigv1.Pod) podKey { return podKey{source: p.GetSource(), uid: p.GetRef().GetUid()} }
