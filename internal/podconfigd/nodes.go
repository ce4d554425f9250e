package podconfigd

import (
	"slices"

	"github.com/podstream/podstream/internal/sourceconfig"
	"github.com/podstream/podstream/internal/sources"
	"github.com/podstream/podstream/internal/sources/apiserver"
)

// lacking returns one of the nodes whose pods a source doesn't have: see service.Config.Lacking. It is safe for concurrent
// use.
func (s *supervisor) lacking(source string, nodes []string) (string, bool) {
	s.mu.Lock()
	former, unread := s.former[source]
	s.mu.Unlock()
	if node, lacking := former.Lacking(nodes); unread && lacking {
		return node, true
	}
	for _, entry := range s.plan.Load().Sources {
		if entry.Name == source {
			return nodesOf(entry, s.node).Lacking(nodes)
		}
	}
	return "", false
}

// adopt makes the next plan the current one. The handover has it already.
func (s *supervisor) adopt(plan, next *sourceconfig.Plan) {
	s.remember(plan, next)
	s.plan.Store(next)
	if s.nodesChanged != nil && !slices.Equal(plan.Nodes, next.Nodes) {
		s.nodesChanged()
	}
}

// remember records the nodes that each source of the next plan had so far, if it gets others, and those of each source that
// leaves: it stays configured for now, and may come back with others.
func (s *supervisor) remember(plan, next *sourceconfig.Plan) {
	s.mu.Lock()
	defer s.mu.Unlock()
	is := func(name string) func(sourceconfig.Source) bool {
		return func(entry sourceconfig.Source) bool { return entry.Name == name }
	}
	for name := range s.former {
		if !slices.ContainsFunc(next.Sources, is(name)) && !s.handover.leaves(name) {
			delete(s.former, name)
		}
	}
	for _, entry := range plan.Sources {
		i := slices.IndexFunc(next.Sources, is(entry.Name))
		if _, unread := s.former[entry.Name]; unread {
			continue
		}
		nodes := nodesOf(entry, s.node)
		if i < 0 && s.handover.leaves(entry.Name) || i >= 0 && !nodes.Equal(nodesOf(next.Sources[i], s.node)) {
			s.former[entry.Name] = nodes
		}
	}
}

// forget records that a source has given a good set with the nodes of the current plan. It is safe for concurrent use.
func (s *supervisor) forget(source string) {
	s.mu.Lock()
	_, unread := s.former[source]
	delete(s.former, source)
	s.mu.Unlock()
	if unread && s.nodesChanged != nil {
		s.nodesChanged() // Nodes that were held until now go on.
	}
}

// nodesOf returns the nodes whose pods a source has. Files and URLs may have pods of any node.
func nodesOf(entry sourceconfig.Source, own string) sources.Nodes {
	var names []string
	var shard, shards int
	switch {
	case entry.API != nil:
		names, shard, shards = entry.API.Nodes, entry.API.Shard, entry.API.Shards
	case entry.Relay != nil:
		names = entry.Relay.Nodes
	default:
		return sources.Nodes{}
	}
	switch {
	case slices.Contains(names, apiserver.AllNodes):
		names = nil
	case len(names) == 0:
		names = []string{own}
	}
	return sources.Nodes{Names: names, Shard: shard, Shards: shards}
}

// onlyNode returns the node of a relay that has the pods of one node, or nothing.
func onlyNode(names []string, own string) string {
	switch {
	case len(names) == 0:
		return own
	case len(names) == 1 && names[0] != apiserver.AllNodes:
		return names[0]
	default:
		return ""
	}
}
