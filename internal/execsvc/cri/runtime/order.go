package runtime

import (
	"cmp"
	"context"
	"slices"
	"sync"
	"time"

	v1 "k8s.io/api/core/v1"
	utilerrors "k8s.io/apimachinery/pkg/util/errors"

	"github.com/podstream/podstream/internal/execsvc/pod/observed"
	"github.com/podstream/podstream/internal/execsvc/pod/podmeta"
)

// order groups a pod's containers that may run by the order in which they stop: main containers, then the sidecars one
// after the other. Ephemeral containers have no place in the order: nothing waits for them.
type order struct{ main, sidecars, ephemeral []observed.Container }

func (s *stopper) ordered(has *observed.Pod) (o order) {
	at := func(c observed.Container) int {
		return slices.IndexFunc(s.pod.Spec.InitContainers, func(i v1.Container) bool { return i.Name == c.Name && podmeta.IsSidecar(&i) })
	}
	for _, c := range has.Containers {
		switch {
		case c.State != observed.Running && c.State != observed.Unknown:
		case at(c) >= 0:
			o.sidecars = append(o.sidecars, c)
		case slices.ContainsFunc(s.pod.Spec.EphemeralContainers, func(e v1.EphemeralContainer) bool { return e.Name == c.Name }):
			o.ephemeral = append(o.ephemeral, c)
		default:
			o.main = append(o.main, c)
		}
	}
	slices.SortStableFunc(o.sidecars, func(a, b observed.Container) int { return cmp.Compare(at(b), at(a)) })
	return o
}

// endAll stops the pod's containers.
func (s *stopper) endAll(ctx context.Context, has *observed.Pod) error {
	o := s.ordered(has)
	var beside error
	var ephemeral sync.WaitGroup
	ephemeral.Go(func() {
		beside = s.together(o.ephemeral, func(c observed.Container) error { return s.end(ctx, c, "") })
	})
	err := s.endInOrder(ctx, o)
	ephemeral.Wait()
	return utilerrors.NewAggregate([]error{err, beside})
}

// endInOrder stops the main containers and then the sidecars. A container that can't be stopped delays those after it
// until it is overdue.
func (s *stopper) endInOrder(ctx context.Context, o order) error {
	hooks := s.startHooks(ctx, o.sidecars)
	defer func() { <-hooks.done }()
	failed := s.endMain(ctx, o.main, hooks.done)
	if failed != nil && (ctx.Err() != nil || !s.overdue(o.main)) {
		return failed
	}
	stop := func(c observed.Container) error {
		s.noteTry(c.ID)
		<-hooks.of[c.ID]
		return s.stop(ctx, c)
	}
	for rest := o.sidecars; len(rest) > 0; {
		n := 1
		if failed != nil || s.left(rest[0].ID) == 0 {
			n = len(rest)
		}
		err := s.together(rest[:n], stop)
		failed = utilerrors.NewAggregate([]error{failed, err})
		if err != nil && !s.overdue(rest[:n]) {
			return failed
		}
		rest = rest[n:]
	}
	return failed
}

// hooks are the preStop hooks of the sidecars, which run while the main containers stop.
type hooks struct {
	// of has a channel for each container ID that is closed when that hook has ended. done is closed when all have
	// ended.
	of   map[string]chan struct{}
	done chan struct{}
}

func (s *stopper) startHooks(ctx context.Context, sidecars []observed.Container) hooks {
	h := hooks{of: map[string]chan struct{}{}, done: make(chan struct{})}
	if len(sidecars) == 0 {
		close(h.done)
		return h
	}
	var running sync.WaitGroup
	for _, c := range sidecars {
		ended := make(chan struct{})
		h.of[c.ID] = ended
		running.Go(func() {
			defer close(ended)
			s.prepare(ctx, c, "")
		})
	}
	go func() {
		defer close(h.done)
		running.Wait()
	}()
	return h
}

// stopPause is the pause between two attempts to stop main containers while the hooks of sidecars run.
const stopPause = 10 * time.Second

// endMain stops the main containers. After a failure it tries again while the sidecars' hooks run: it neither waits for
// the hooks, nor interrupts them, because they would run again with the next call.
func (s *stopper) endMain(ctx context.Context, main []observed.Container, hooksDone <-chan struct{}) error {
	err := s.together(main, func(c observed.Container) error {
		s.noteTry(c.ID)
		return s.end(ctx, c, "")
	})
	for err != nil && !s.overdue(main) && s.pause(ctx, hooksDone) {
		err = s.together(main, func(c observed.Container) error { return s.stop(ctx, c) })
	}
	return err
}

// pause waits for stopPause. It returns false if another attempt is pointless: the hooks are done, or ctx has ended.
func (s *stopper) pause(ctx context.Context, hooksDone <-chan struct{}) bool {
	select {
	case <-hooksDone:
		return false
	default:
	}
	timer := s.cfg.Clock.NewTimer(stopPause)
	defer timer.Stop()
	select {
	case <-hooksDone:
		return false
	case <-ctx.Done():
		return false
	case <-timer.C():
		return true
	}
}

// together calls do for some containers at once, and returns all failures. One doesn't affect the grace period of the
// other containers.
func (s *stopper) together(containers []observed.Container, do func(observed.Container) error) error {
	var all sync.WaitGroup
	failed := make([]error, len(containers))
	for i, c := range containers {
		all.Go(func() { failed[i] = do(c) })
	}
	all.Wait()
	return utilerrors.NewAggregate(failed)
}

// noteTry records when this agent first tried to stop the container with its pod.
func (s *stopper) noteTry(id string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if _, before := s.tried[id]; !before {
		s.tried[id] = s.cfg.Clock.Now()
	}
}

// overdue reports whether the grace period is over since this agent first tried to stop one of the containers.
func (s *stopper) overdue(containers []observed.Container) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.ContainsFunc(containers, func(c observed.Container) bool {
		first, tried := s.tried[c.ID]
		return tried && s.cfg.Clock.Since(first) >= time.Duration(s.Seconds)*time.Second
	})
}
