package objects

import (
	"maps"
	"slices"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podstream/podstream/internal/manifest"
	"github.com/podstream/podstream/internal/mergesvc/revision"
)

// pod is a pod that refers to objects.
type pod struct {
	who          *referrer
	source, node string
	keys         []manifest.ObjectKey
}

// resync takes in all current pods: at the start, and when the history has dropped the next revision. The caller
// holds mu.
func (h *Hub) resync() []line {
	st := h.cfg.History.State()
	h.podRevision = st.Number
	r := h.open()
	r.ready = true
	gone := maps.Clone(h.pods)
	for _, p := range st.Pods {
		delete(gone, p.UID())
		h.putPod(r, p)
	}
	for uid := range gone {
		h.dropPod(r, uid)
	}
	h.commit(r)
	return r.lines()
}

// follow takes in one revision of the pods. The caller holds mu.
func (h *Hub) follow(rev *revision.Revision) []line {
	h.podRevision = rev.Number
	r := h.open()
	r.ready = rev.BecameReady || rev.Sources != nil
	for _, c := range rev.Changes {
		for _, p := range c.Pods {
			switch c.Op {
			case revision.REMOVE:
				h.dropPod(r, p.UID())
			case revision.RECONCILE:
				h.refreshPod(p)
			default:
				h.putPod(r, p)
			}
		}
	}
	for _, p := range rev.Settled {
		h.refreshPod(p)
	}
	h.commit(r)
	return r.lines()
}

// refreshPod replaces a pod by a version that is equal here, so that the old one needn't stay in memory.
func (h *Hub) refreshPod(p *revision.Pod) {
	if known := h.pods[p.UID()]; known != nil {
		known.who.pod = p
	}
}

// putPod takes in a pod that is new or changed.
func (h *Hub) putPod(r *revisionOf, p *revision.Pod) {
	keys := h.references(p)
	known := h.pods[p.UID()]
	if known != nil && slices.Equal(known.keys, keys) && alike(known.who.pod, p) {
		known.who.pod = p
		return
	}
	if known != nil {
		h.dropPod(r, p.UID())
	}
	if len(keys) == 0 {
		return
	}
	fresh := &pod{who: &referrer{pod: p}, source: p.Source, node: p.Object.Spec.NodeName, keys: keys}
	for _, key := range keys {
		h.refer(r, Ref{fresh.source, key}, fresh.node, fresh.who)
	}
	h.pods[p.UID()] = fresh
}

// dropPod ends the references of a removed pod.
func (h *Hub) dropPod(r *revisionOf, uid types.UID) {
	known := h.pods[uid]
	if known == nil {
		return
	}
	for _, key := range known.keys {
		h.unrefer(r, Ref{known.source, key}, known.node, known.who)
	}
	// The index keeps the pod for a while, but not its content.
	known.who.pod = outline(known.who.pod)
	delete(h.pods, uid)
}

// alike reports whether every view that sees one version of a pod sees the other.
func alike(a, b *revision.Pod) bool {
	return a.Source == b.Source && a.Object.Namespace == b.Object.Namespace && a.Object.Name == b.Object.Name &&
		a.Object.Spec.NodeName == b.Object.Spec.NodeName && maps.Equal(a.Object.Labels, b.Object.Labels)
}

// outline returns the fields by which views match a pod.
func outline(p *revision.Pod) *revision.Pod {
	return &revision.Pod{Source: p.Source, Object: &v1.Pod{
		ObjectMeta: metav1.ObjectMeta{UID: p.Object.UID, Namespace: p.Object.Namespace, Name: p.Object.Name, Labels: p.Object.Labels},
		Spec:       v1.PodSpec{NodeName: p.Object.Spec.NodeName},
	}}
}
