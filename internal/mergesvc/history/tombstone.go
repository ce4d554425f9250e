package history

import (
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/podstream/podstream/internal/mergesvc/revision"
)

// Tombstone is the record of a removed pod.
type Tombstone struct {
	// Pod has the reference, the node and the digests only.
	Pod *revision.Pod
	// Removed is the revision that removed it.
	Removed uint64
}

// trimTombstones drops the oldest tombstones beyond the bound. The caller holds mu.
func (h *History) trimTombstones() {
	if over := len(h.tombs) - h.cfg.Tombstones; over > 0 {
		h.horizon = h.tombs[over-1].Removed
		// States share the array, so it isn't cleared; it is abandoned when it is full.
		h.tombs = h.tombs[over:]
	}
}

// Stripped returns the pod without its content, except for its node, which is compared with a caller's scope.
func Stripped(p *revision.Pod) *revision.Pod {
	return &revision.Pod{
		Object: &v1.Pod{ObjectMeta: metav1.ObjectMeta{
			UID: p.Object.UID, Namespace: p.Object.Namespace, Name: p.Object.Name,
		}, Spec: v1.PodSpec{NodeName: p.Object.Spec.NodeName}},
		Source: p.Source, SpecDigest: p.SpecDigest, StatusDigest: p.StatusDigest,
		Created: p.Created, SpecChanged: p.SpecChanged, StatusChanged: p.StatusChanged,
	}
}
