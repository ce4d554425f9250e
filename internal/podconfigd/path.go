package podconfigd

import (
	podconfigv1 "github.com/podstream/podstream/proto/podconfig/v1"
)

// pather is a source whose pods come through other podconfigds.
type pather interface {
	Path() []*podconfigv1.RelayHop
}

// path returns this podconfigd and then each one that a source's pods come through, each once. It is safe for
// concurrent use.
func (s *supervisor) path(own *podconfigv1.RelayHop) []*podconfigv1.RelayHop {
	out := []*podconfigv1.RelayHop{own}
	seen := map[string]bool{own.GetId(): true}
	for _, entry := range s.plan.Load().Sources {
		for _, hop := range s.sourcePath(entry.Name) {
			if !seen[hop.GetId()] {
				seen[hop.GetId()] = true
				out = append(out, hop)
			}
		}
	}
	return out
}
