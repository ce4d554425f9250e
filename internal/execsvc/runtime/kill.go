package runtime

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	v1 "k8s.io/api/core/v1"

	"github.com/podstream/podstream/internal/execsvc/actions"
	"github.com/podstream/podstream/internal/execsvc/events"
	"github.com/podstream/podstream/internal/execsvc/handler"
	"github.com/podstream/podstream/internal/execsvc/observed"
)

// minGrace is the least time, in seconds, that a container gets to end by itself after SIGTERM.
const minGrace = 2

// KillPod stops all that the pod has within the grace period in seconds, and then its sandboxes: preStop hooks at once, main
// containers once theirs are done, then the sidecars in reverse order. With no grace period there are no hooks. Of the pod's spec
// only the init containers are used; they may be missing. It is no error if something has stopped before.
func (r *Runtime) KillPod(ctx context.Context, pod *v1.Pod, has *observed.Pod, grace int64) error {
	if err := r.stopper(pod, has, grace).endAll(ctx, has); err != nil {
		return err
	}
	for _, s := range has.Sandboxes {
		// A sandbox that isn't ready may still hold its network.
		if err := ignoreGone(r.cfg.Runtime.StopPodSandbox(ctx, s.ID)); err != nil {
			return fmt.Errorf("stop sandbox %s: %w", s.ID, err)
		}
	}
	return nil
}

// stopper ends containers of one pod, all by the same deadline.
type stopper struct {
	*Runtime
	pod   *v1.Pod
	podIP string
	// grace is the whole grace period in seconds; it runs until deadline.
	grace    int64
	deadline time.Time
}

func (r *Runtime) stopper(pod *v1.Pod, has *observed.Pod, grace int64) *stopper {
	s := &stopper{Runtime: r, pod: pod, grace: max(grace, 0)}
	s.deadline = r.cfg.Clock.Now().Add(time.Duration(s.grace) * time.Second)
	if box := has.ReadySandbox(); box != nil {
		s.podIP = r.podIP(pod, has, box.ID)
	}
	return s
}

// left is what is left of the grace period, in seconds, rounded up.
func (s *stopper) left() int64 {
	return max(int64((s.deadline.Sub(s.cfg.Clock.Now())+time.Second-1)/time.Second), 0)
}

// endAll ends the pod's containers in their order.
func (s *stopper) endAll(ctx context.Context, has *observed.Pod) error {
	main, sidecars := s.ordered(has)
	// The sidecars' hooks run beside the others' ends.
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var hooks sync.WaitGroup
	defer hooks.Wait()
	prepared := map[string]chan struct{}{}
	for _, c := range sidecars {
		done := make(chan struct{})
		prepared[c.ID] = done
		hooks.Go(func() {
			defer close(done)
			s.prepare(ctx, c, "")
		})
	}
	if err := s.together(main, func(c observed.Container) error { return s.end(ctx, c, "") }); err != nil {
		cancel()
		return err
	}
	stop := func(c observed.Container) error {
		<-prepared[c.ID]
		return s.stop(ctx, c)
	}
	for len(sidecars) > 0 {
		n := 1
		if s.left() == 0 {
			n = len(sidecars)
		}
		if err := s.together(sidecars[:n], stop); err != nil {
			cancel()
			return err
		}
		sidecars = sidecars[n:]
	}
	return nil
}

// ordered are the containers that may run: those that end first, and the sidecars in the order in which they do.
func (s *stopper) ordered(has *observed.Pod) (main, sidecars []observed.Container) {
	at := func(c observed.Container) int {
		return slices.IndexFunc(s.pod.Spec.InitContainers, func(i v1.Container) bool { return i.Name == c.Name && actions.IsSidecar(&i) })
	}
	for _, c := range has.Containers {
		switch {
		case c.State != observed.Running && c.State != observed.Unknown:
		case at(c) >= 0:
			sidecars = append(sidecars, c)
		default:
			main = append(main, c)
		}
	}
	slices.SortStableFunc(sidecars, func(a, b observed.Container) int { return cmp.Compare(at(b), at(a)) })
	return main, sidecars
}

// together does something to some containers at once. One that fails doesn't keep the others from their grace period.
func (s *stopper) together(containers []observed.Container, do func(observed.Container) error) error {
	var group errgroup.Group
	for _, c := range containers {
		group.Go(func() error { return do(c) })
	}
	return group.Wait()
}

// end ends one container: its hook first, then itself.
func (s *stopper) end(ctx context.Context, c observed.Container, message string) error {
	s.prepare(ctx, c, message)
	return s.stop(ctx, c)
}

// prepare says that the container is being ended, and carries out its preStop hook, unless that was done before. Whatever comes
// of it, the container ends.
func (s *stopper) prepare(ctx context.Context, c observed.Container, message string) {
	message = cmp.Or(message, "Stopping container "+c.Name)
	s.log.Info("stopping container", "pod", podName(s.pod), "uid", s.pod.UID, "container", c.Name, "id", c.ID,
		"grace_seconds", s.left(), "reason", message)
	s.cfg.Events.Record(s.pod, c.Name, events.Normal, events.KillingContainer, message)
	s.mu.Lock()
	done := s.preStopped[c.ID]
	s.mu.Unlock()
	if c.PreStop == nil || s.grace == 0 || done || c.State != observed.Running {
		return
	}
	hookCtx, cancel := s.withDeadline(ctx)
	defer cancel()
	err := s.hook(hookCtx, targetOf(s.pod, c, s.podIP), c.PreStop)
	if ctx.Err() != nil {
		// Cut short: whoever goes on with this begins it anew.
		return
	}
	s.mark(s.preStopped, c.ID)
	if err != nil {
		s.log.Warn("preStop hook failed", "pod", podName(s.pod), "uid", s.pod.UID, "container", c.Name, "error", err)
		s.cfg.Events.Record(s.pod, c.Name, events.Warning, events.FailedPreStopHook, "PreStopHook failed")
	}
}

// stop has the runtime stop the container within what is left.
func (s *stopper) stop(ctx context.Context, c observed.Container) error {
	s.mark(s.stopped, c.ID)
	if err := ignoreGone(s.cfg.Runtime.StopContainer(ctx, c.ID, max(s.left(), minGrace))); err != nil {
		return fmt.Errorf("stop container %s (%s): %w", c.Name, c.ID, err)
	}
	return nil
}

// withDeadline is ctx until the grace period has run out by the Runtime's clock.
func (s *stopper) withDeadline(ctx context.Context) (context.Context, func()) {
	ctx, cancel := context.WithCancel(ctx)
	timer := s.cfg.Clock.NewTimer(s.deadline.Sub(s.cfg.Clock.Now()))
	var waiting sync.WaitGroup
	waiting.Go(func() {
		defer timer.Stop()
		select {
		case <-timer.C():
			cancel()
		case <-ctx.Done():
		}
	})
	return ctx, func() {
		cancel()
		waiting.Wait()
	}
}

// targetOf is the container as hooks have to know it.
func targetOf(pod *v1.Pod, c observed.Container, podIP string) handler.Target {
	return handler.Target{Pod: pod, Container: c.Name, ContainerID: c.ID, Ports: c.Ports, PodIP: podIP}
}

func (r *Runtime) hook(ctx context.Context, target handler.Target, hook *v1.LifecycleHandler) error {
	if r.cfg.Hooks == nil {
		return errors.New("nobody carries out hooks here")
	}
	return r.cfg.Hooks.Hook(ctx, target, hook)
}

// podIP is where requests go that hooks make to the pod, or empty if the reading doesn't tell.
func (r *Runtime) podIP(pod *v1.Pod, has *observed.Pod, sandbox string) string {
	ips := r.cfg.HostIPs()
	if !pod.Spec.HostNetwork {
		ips = nil
		if i := slices.IndexFunc(has.Sandboxes, func(s observed.Sandbox) bool { return s.ID == sandbox }); i >= 0 {
			ips = has.Sandboxes[i].IPs
		}
	}
	if len(ips) == 0 {
		return ""
	}
	return ips[0]
}

// ignoreGone is err, but nil if it says that what was to be stopped or removed isn't there: not every runtime takes that for
// success, as the CRI wants it to.
func ignoreGone(err error) error {
	if status.Code(err) == codes.NotFound {
		return nil
	}
	return err
}
