package podconfigd

import (
	"github.com/podstream/podstream/internal/sources"
	podconfigv1 "github.com/podstream/podstream/proto/podconfig/v1"
)

// sourceOf returns the source that runs under a name, or nil. It is safe for concurrent use, as the others here.
func (s *supervisor) sourceOf(name string) sources.Source {
	s.mu.Lock()
	defer s.mu.Unlock()
	if r := s.running[name]; r != nil {
		return r.source
	}
	return nil
}

// accept has a source accept what it refuses: see service.Config.Accept.
func (s *supervisor) accept(source string) (string, error) {
	if a, ok := s.sourceOf(source).(sources.Accepter); ok {
		return a.Accept()
	}
	return "", nil
}

// confirm requests a confirmation of a source: see service.Config.Confirm.
func (s *supervisor) confirm(source string, nodes []string) uint64 {
	if c, ok := s.sourceOf(source).(sources.Confirmer); ok {
		return c.Confirm(nodes)
	}
	return 0
}

// sourcePath returns the podconfigds that the pods of a source come through, the nearest first.
func (s *supervisor) sourcePath(source string) []*podconfigv1.RelayHop {
	if p, ok := s.sourceOf(source).(pather); ok {
		return p.Path()
	}
	return nil
}
