package service

import (
	"slices"

	"github.com/podstream/podstream/internal/access"
	"github.com/podstream/podstream/internal/mergesvc/history"
	podconfigv1 "github.com/podstream/podstream/proto/podconfig/v1"
)

// hiddenNode replaces a node in a path that is out of the caller's scope.
const hiddenNode = "unknown"

// pathFor is the path as a caller that sees these sources gets it: this podconfigd and those that the sources' pods
// come through, each once. The IDs are always included, as a relay detects a loop by them. The nodes of the
// podconfigds behind this one are included only if they are in the caller's scope.
func (s *Server) pathFor(caller access.Caller, sources history.Sources) []*podconfigv1.RelayHop {
	all := s.cfg.Path()
	if len(all) == 0 || len(caller.Nodes) == 0 && len(caller.Sources) == 0 {
		return all
	}
	out := all[:1:1]
	for _, src := range sources {
		for _, hop := range s.hopsFor(caller, src.Name) {
			if !slices.ContainsFunc(out, func(h *podconfigv1.RelayHop) bool { return h.GetId() == hop.GetId() }) {
				out = append(out, hop)
			}
		}
	}
	return out
}

// hopsFor is the path of a source that the caller sees.
func (s *Server) hopsFor(caller access.Caller, source string) []*podconfigv1.RelayHop {
	hops := s.cfg.SourcePath(source)
	if len(caller.Nodes) == 0 {
		return hops
	}
	out := make([]*podconfigv1.RelayHop, 0, len(hops))
	for _, hop := range hops {
		if !caller.HasNode(hop.GetNode()) {
			hop = &podconfigv1.RelayHop{Id: hop.GetId(), Node: hiddenNode}
		}
		out = append(out, hop)
	}
	return out
}
