package view

import (
	"k8s.io/apimachinery/pkg/types"

	"github.com/podstream/podstream/internal/mergesvc/revision"
)

// Mask is what a stream leaves out of its view for a time: sources that are held for the consumer, and other sources'
// pods that collide with pods that the consumer has from those. The stream changes it between two units.
type Mask struct {
	Sources map[string]bool
	UIDs    map[types.UID]bool
	// Names are names_namespaces, as the kubelet has them.
	Names map[string]bool
}

// Without returns the view without what the mask has. Its Hash is the same: the mask belongs to one stream, and the
// cursors of that stream say so.
func (v *View) Without(mask *Mask) *View {
	out := *v
	out.mask = mask
	return &out
}

// has reports whether the mask hides the pod.
func (m *Mask) has(p *revision.Pod) bool {
	return m != nil && (m.Sources[p.Source] || m.UIDs[p.UID()] || m.Names[p.FullName()])
}

// hides reports whether the mask hides every pod with that UID and, if it is known, that name.
func (m *Mask) hides(uid types.UID, namespace, name string) bool {
	return m != nil && (m.UIDs[uid] || name != "" && m.Names[name+"_"+namespace])
}
