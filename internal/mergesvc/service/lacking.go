package service

import (
	"maps"

	"github.com/podstream/podstream/internal/mergesvc/history"
	"github.com/podstream/podstream/internal/mergesvc/view"
)

// A podconfigd that has the pods of some nodes only says nothing about the pods of others. So a source is held for a consumer of
// one of the others, which would be told otherwise that it has no pods: it was sent to the wrong gateway. Only other nodes of the
// source end that.

// NodesChanged has streams checked before they send something: one that was begun for nodes whose pods a source doesn't have any
// more ends, so that the pods aren't removed. Streams that hold a source are checked at once. It is safe for concurrent use.
func (s *Server) NodesChanged() {
	s.nodes.Add(1)
	s.history.WakeWaiting()
}

// lacks returns one of the view's nodes whose pods the source doesn't have here. A view of all nodes has what there is.
func (w *watch) lacks(source string) (node string, lacking bool) {
	return w.server.lacks(source, w.view)
}

func (s *Server) lacks(source string, v *view.View) (node string, lacking bool) {
	nodes := v.Nodes()
	if s.cfg.Lacking == nil || len(nodes) == 0 {
		return "", false
	}
	return s.cfg.Lacking(source, nodes)
}

// lackingSources returns the sources that lack the pods of a node of the view: their objects aren't known, either.
func (s *Server) lackingSources(v *view.View) map[string]bool {
	out := map[string]bool{}
	for _, src := range s.history.Sources() {
		if _, lacking := s.lacks(src.Name, v); lacking && v.Sees(src.Name) {
			out[src.Name] = true
		}
	}
	return out
}

// checkNodes ends a stream of objects once other sources lack the pods of its nodes: the consumer would be told to remove the
// objects of pods that run on, or wouldn't be told of those that have come. What is sent was read before.
func (w *objectWatch) checkNodes() error {
	changes := w.server.nodes.Load()
	if changes == w.nodesSeen && len(w.lacking) == 0 {
		return nil
	}
	if !maps.Equal(w.server.lackingSources(w.view), w.lacking) {
		return unavailable("podconfigd has the pods of other nodes now; subscribe again")
	}
	w.nodesSeen = changes
	return nil
}

// lacking returns the sources that lack the pods of a node of the view.
func (w *watch) lacking(sources history.Sources) (names []string) {
	for _, src := range sources {
		if _, lacking := w.lacks(src.Name); lacking && w.view.Sees(src.Name) {
			names = append(names, src.Name)
		}
	}
	return names
}

// checkValid returns an error if nothing may be sent any more.
func (w *watch) checkValid() error {
	if err := w.checkForsaken(); err != nil {
		return err
	}
	changes := w.server.nodes.Load()
	if changes == w.nodesSeen {
		return nil
	}
	for _, source := range w.lacking(w.history.Sources()) {
		if w.held == nil || w.held.sources[source] == nil {
			return unavailable("podconfigd doesn't have the pods of all nodes of this stream any more; subscribe again")
		}
	}
	w.nodesSeen = changes
	return nil
}
