package runtime

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"golang.org/x/sync/errgroup"

	"github.com/podstream/podstream/internal/execsvc/decide/actions"
	"github.com/podstream/podstream/internal/execsvc/pod/podmeta"
)

// This file has what a round stops.

// kill stops the containers that can't go on, concurrently. Those of a requested restart stop in the order of a pod's
// end.
func (s *round) kill(ctx context.Context) error {
	var group errgroup.Group
	s.replaceKilled(ctx)
	requested, messages := *s.Has, map[string]string{}
	requested.Containers = nil
	for _, k := range s.do.Kill {
		s.res.Acted = true
		message := fmt.Sprintf("Container %s %s", k.Container.Name, k.Reason)
		if k.Restart {
			message += ", will be restarted"
		}
		if k.Requested {
			requested.Containers = append(requested.Containers, k.Container)
			messages[k.Container.ID] = message
			continue
		}
		group.Go(func() error {
			return s.stopper(s.Pod, s.Has, Grace{Seconds: k.Grace}).end(ctx, k.Container, message)
		})
	}
	if len(requested.Containers) > 0 {
		stop := s.stopper(s.Pod, s.Has, Grace{Seconds: podmeta.GracePeriod(s.Pod), Signaled: s.Signaled})
		stop.messages = messages
		group.Go(func() error { return stop.endAll(ctx, &requested) })
	}
	return group.Wait()
}

// hold removes replacements that can't start yet from the actions: a running container goes on until its successor can
// start.
func (s *round) hold(ctx context.Context, asked *asked) error {
	var errs []error
	sidecar := false
	s.do.Kill = slices.DeleteFunc(s.do.Kill, func(k actions.Kill) bool {
		if !k.Hold || !k.Restart {
			return false
		}
		got := asked.of(k.Container.Name)
		why, lacks := s.Lacks[k.Container.Name]
		if !lacks && (got == nil || got.wait == nil) {
			return false
		}
		if start := s.dropStart(k.Container.Name); k.Requested && start != nil && start.Init {
			sidecar = true
		}
		if lacks {
			errs = append(errs, fmt.Errorf("replace container %s: %s: %s; its predecessor goes on", k.Container.Name, CreateContainerConfigError, why))
			return true
		}
		if err := s.waitForImage(ctx, k.Container.Name, got); err != nil {
			errs = append(errs, fmt.Errorf("replace container %s: %w; its predecessor goes on", k.Container.Name, err))
		}
		return true
	})
	if sidecar {
		s.holdAwaiting()
	}
	return errors.Join(errs...)
}

// holdAwaiting is for a requested restart whose sidecar goes on for now: the containers that were to wait for the new
// sidecar go on too, or start beside the present one.
func (s *round) holdAwaiting() {
	s.do.Kill = slices.DeleteFunc(s.do.Kill, func(k actions.Kill) bool {
		i := slices.IndexFunc(s.do.Start, func(start actions.Start) bool { return start.Await && start.Container.Name == k.Container.Name })
		if i < 0 {
			return false
		}
		s.do.Start = slices.Delete(s.do.Start, i, i+1)
		return true
	})
	for i := range s.do.Start {
		s.do.Start[i].Await = false
	}
}

// dropStart removes a container from those to start, and returns its Start, or nil.
func (s *round) dropStart(name string) *actions.Start {
	i := slices.IndexFunc(s.do.Start, func(start actions.Start) bool { return start.Container.Name == name })
	if i < 0 {
		return nil
	}
	start := s.do.Start[i]
	s.do.Start = slices.Delete(s.do.Start, i, i+1)
	return &start
}
