package runtime

import (
	"context"

	"github.com/podstream/podstream/internal/execsvc/decide/actions"
	"github.com/podstream/podstream/internal/execsvc/pod/observed"
)

// replaceWithSandbox marks the running containers that restart in a new sandbox: the end of the old one isn't their own.
func (s *round) replaceWithSandbox(ctx context.Context) {
	if !s.do.CreateSandbox {
		return
	}
	var ids []string
	for i := range s.Pod.Spec.Containers {
		c := &s.Pod.Spec.Containers[i]
		if last := s.Has.Latest(c.Name); last != nil && last.State == observed.Running && actions.Restarts(s.Pod, c, last) {
			ids = append(ids, last.ID)
		}
	}
	s.replace(ctx, ids)
}

// replaceKilled marks the containers that this round stops to start successors.
func (s *round) replaceKilled(ctx context.Context) {
	var ids []string
	for _, k := range s.do.Kill {
		if k.Restart {
			ids = append(ids, k.Container.ID)
		}
	}
	s.replace(ctx, ids)
}

// replace marks containers that are about to be stopped so that successors start, and reports all of the pod's that are
// marked, if the exit code of any could count.
func (s *round) replace(ctx context.Context, ids []string) {
	if len(ids) == 0 {
		return
	}
	for _, id := range ids {
		s.mark(s.replaced, id)
	}
	s.mu.Lock()
	var all []string
	for _, c := range s.Has.Containers {
		if s.replaced[c.ID] && actions.MayEnd(s.Pod, c.Name) {
			all = append(all, c.ID)
		}
	}
	s.mu.Unlock()
	if len(all) > 0 && s.Replacing != nil {
		s.Replacing(ctx, all)
	}
}

// RestoreReplaced records that these containers were stopped, or were about to be, so that successors start. It must be
// called before the containers are read.
func (r *Runtime) RestoreReplaced(ids []string) {
	for _, id := range ids {
		r.mark(r.replaced, id)
	}
}
