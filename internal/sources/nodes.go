package sources

import (
	"slices"

	"github.com/podstream/podstream/client/shard"
)

// Nodes are the nodes whose pods a source has. The zero value has all.
type Nodes struct {
	// Names are the only nodes, in any order. Nil: all.
	Names []string
	// Shard is the only shard of Shards, see package shard. Zero or one Shards: all.
	Shard, Shards int
}

// Has reports whether the source has the pods of a node.
func (n Nodes) Has(node string) bool {
	return (n.Names == nil || slices.Contains(n.Names, node)) && (n.Shards <= 1 || shard.Of(node, n.Shards) == n.Shard)
}

// Lacking returns the first of some nodes whose pods the source doesn't have; false: it has those of all.
func (n Nodes) Lacking(nodes []string) (string, bool) {
	i := slices.IndexFunc(nodes, func(node string) bool { return !n.Has(node) })
	if i < 0 {
		return "", false
	}
	return nodes[i], true
}

// Equal reports whether both have the same names, in the same order, and the same shard.
func (n Nodes) Equal(other Nodes) bool {
	return (n.Names == nil) == (other.Names == nil) && slices.Equal(n.Names, other.Names) && n.Shard == other.Shard && n.Shards == other.Shards
}
