package node

import (
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/resourceversion"
)

// Node returns the object as last seen. It is nil if no object is known. The caller must not change it.
func (n *Node) Node() *v1.Node {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.seen
}

// UID returns the UID of the object as last seen, or "" if no object is known, and a channel that is closed when that has
// changed: other objects of this node belong to the Node with that UID.
func (n *Node) UID() (types.UID, <-chan struct{}) {
	n.mu.Lock()
	defer n.mu.Unlock()
	return uidOf(n.seen), n.replaced
}

func uidOf(node *v1.Node) types.UID {
	if node == nil {
		return ""
	}
	return node.UID
}

// set stores the object, or nil. n.mu is held.
func (n *Node) set(node *v1.Node) {
	if uidOf(n.seen) != uidOf(node) {
		close(n.replaced)
		n.replaced = make(chan struct{})
	}
	n.seen = node
}

// see stores the object, unless a newer one is known.
func (n *Node) see(node *v1.Node) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.seen != nil {
		if order, err := resourceversion.CompareResourceVersion(node.ResourceVersion, n.seen.ResourceVersion); err == nil && order < 0 {
			return
		}
	}
	n.set(node)
}

// seeAgain stores the object even if a newer one is known: the server may have lost that, or may have been restored
// from a backup.
func (n *Node) seeAgain(node *v1.Node) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.set(node)
}

// gone records that the object was deleted.
func (n *Node) gone(node *v1.Node) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.seen != nil && n.seen.UID == node.UID {
		n.set(nil)
	}
}
