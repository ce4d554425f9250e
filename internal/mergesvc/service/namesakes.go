package service

import (
	"k8s.io/apimachinery/pkg/types"

	"github.com/podstream/podstream/internal/mergesvc/catchup"
	"github.com/podstream/podstream/internal/mergesvc/history"
	"github.com/podstream/podstream/internal/mergesvc/revision"
	"github.com/podstream/podstream/internal/mergesvc/view"
	"github.com/podstream/podstream/internal/mergesvc/wire"
)

// namesakes are the pods of other sources that the consumer has with the names of held pods. The mask leaves out such a name,
// so that the consumer gets what becomes of the namesake. When it has none of the name any more, the name is masked: a pod
// that takes the name later would take it from the held pod.
type namesakes struct {
	mask *view.Mask
	pods map[types.UID]namesake
	// names counts the namesakes by name_namespace. It has only names that aren't masked.
	names map[string]int
	// emptied are names of which the last namesake was removed since settle, and perhaps another one was added.
	emptied []string
	// added are the namesakes that the unit adds.
	added map[types.UID]bool
}

type namesake struct{ name, source string }

// newNamesakes takes the names of pods that the consumer has of other sources out of the mask.
func newNamesakes(mask *view.Mask, others []catchup.Known) *namesakes {
	n := &namesakes{mask: mask, pods: map[types.UID]namesake{}, names: map[string]int{}, added: map[types.UID]bool{}}
	for _, k := range others {
		name := k.Name + "_" + k.Namespace
		if mask.Names[name] {
			n.names[name] = 0
		}
	}
	for name := range n.names {
		delete(mask.Names, name)
	}
	for _, k := range others {
		n.add(k.UID, k.Name+"_"+k.Namespace, k.Source)
	}
	return n
}

// apply takes in what the unit changes. The mask stays: of a unit that removes a namesake and adds another one, the consumer
// gets both.
func (n *namesakes) apply(u *wire.Unit) {
	if len(n.names) == 0 {
		return
	}
	n.added = map[types.UID]bool{}
	for _, c := range u.Changes {
		switch c.Op {
		case revision.REMOVE:
			for _, p := range c.Pods {
				n.remove(p.UID())
			}
		case revision.SET:
			n.set(c.Pods, u.Sources, u.Number)
		default:
			for _, p := range c.Pods {
				n.add(p.UID(), p.FullName(), p.Source)
			}
		}
	}
}

// set takes in a SET, by which the consumer removes what it lacks, except pods of sources that haven't been read.
func (n *namesakes) set(pods []*revision.Pod, sources history.Sources, number uint64) {
	has := make(map[types.UID]bool, len(n.pods))
	for _, p := range pods {
		n.add(p.UID(), p.FullName(), p.Source)
		if _, ok := n.pods[p.UID()]; ok {
			has[p.UID()] = true
		}
	}
	for uid, old := range n.pods {
		if !has[uid] && (sources.ReadyAt(old.source, number) || !sources.Configured(old.source) && sources.AllReadyAt(number)) {
			n.remove(uid)
		}
	}
}

// skipped takes in that a pod of the unit isn't sent. One that the unit doesn't add stays until what follows removes it.
func (n *namesakes) skipped(uid types.UID) {
	if n.added[uid] {
		n.remove(uid)
	}
}

// add takes in a pod that the consumer has now.
func (n *namesakes) add(uid types.UID, name, source string) {
	_, had := n.pods[uid]
	n.remove(uid)
	if _, ok := n.names[name]; ok {
		n.added[uid] = !had
		n.pods[uid] = namesake{name: name, source: source}
		n.names[name]++
	}
}

func (n *namesakes) remove(uid types.UID) {
	if old, ok := n.pods[uid]; ok {
		delete(n.pods, uid)
		if n.names[old.name]--; n.names[old.name] == 0 {
			n.emptied = append(n.emptied, old.name)
		}
	}
}

// settle masks the names of which the consumer has no namesake. It is called between units.
func (n *namesakes) settle() {
	for _, name := range n.emptied {
		if count, ok := n.names[name]; ok && count == 0 {
			delete(n.names, name)
			n.mask.Names[name] = true
		}
	}
	n.emptied, n.added = nil, nil
}
