package nodeindex

// Size is the number of nodes that the Index has something of.
func (x *Index[R]) Size() int { return len(x.nodes) }
