package podconfigd

import (
	"errors"
	"log/slog"
	"slices"

	"github.com/podstream/podstream/internal/access"
	"github.com/podstream/podstream/internal/mergesvc/service"
	"github.com/podstream/podstream/internal/sources/applied"
	"github.com/podstream/podstream/internal/write"
	podconfigv1 "github.com/podstream/podstream/proto/podconfig/v1"
)

// writing returns how the service carries out writes: by the source applied of the current plan.
func (s *supervisor) writing() *service.Writing {
	return &service.Writing{
		Writer: func() service.Writer {
			if w, ok := s.sourceOf(write.Source).(*applied.Source); ok {
				return w
			}
			return nil
		},
		Options: func() write.Options { return write.Options{Node: s.node, Strict: s.plan.Load().Strict} },
		Gateway: func() bool {
			nodes := s.plan.Load().Nodes
			return nodes != nil && !slices.Equal(nodes, []string{s.node})
		},
	}
}

// writeMethods are those that take the right to write.
var writeMethods = []string{
	podconfigv1.PodConfigService_ApplyManifests_FullMethodName, podconfigv1.PodConfigService_DeleteManifests_FullMethodName,
	podconfigv1.PodConfigService_ListManifests_FullMethodName,
}

// permit returns a function that refuses the calls that write to callers without the right to, before their requests are
// read. It logs the refusals, as the service does for the calls that it refuses.
func permit(log *slog.Logger) func(method string, c access.Caller) error {
	refused := &refusedWriters{log: log, of: map[string]*refusedWriter{}}
	return func(method string, c access.Caller) error {
		if c.Writes != nil || !slices.Contains(writeMethods, method) {
			return nil
		}
		err := errors.New("it may not write pods: that takes the role deployer")
		refused.add(c, method, err)
		return err
	}
}
