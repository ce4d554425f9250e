package runtime

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
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

// longestGrace is some 68 years, in seconds: longer ones can't be told as a time.
const longestGrace = math.MaxInt32

// Grace is how long the containers of a pod have to end.
type Grace struct {
	// Seconds is the grace period of each container, from when its end began: its hook, or its SIGTERM. With none there are no hooks.
	Seconds int64
	// Since is when that was set: a container whose end had begun before has Seconds from then. Zero: it had none set before.
	Since time.Time
	// Told is called, from any goroutine, when a container that runs on has had its SIGTERM, with the time at which its end began. Whoever
	// is to know that after a restart gives it to RestoreTold then. Nil: nobody is.
	Told func(id string, begun time.Time)
}

// KillPod stops all that the pod has, and then its sandboxes: preStop hooks at once, main containers once theirs are done, then the
// sidecars in reverse order. Of the pod's spec only the init containers are used; they may be missing. It is no error if something has
// stopped before. Called again after a failure, or in another life of this agent, it goes on counting for a container that has had its
// SIGTERM; one that hasn't has its whole grace period before it.
func (r *Runtime) KillPod(ctx context.Context, pod *v1.Pod, has *observed.Pod, grace Grace) error {
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

// stopper ends containers of one pod.
type stopper struct {
	*Runtime
	Grace
	pod   *v1.Pod
	podIP string
	// begun is when the stopper did: then the end of each container began, unless that was told to end before.
	begun time.Time
}

func (r *Runtime) stopper(pod *v1.Pod, has *observed.Pod, grace Grace) *stopper {
	grace.Seconds = min(max(grace.Seconds, 0), longestGrace)
	s := &stopper{Runtime: r, Grace: grace, pod: pod, begun: r.cfg.Clock.Now()}
	if box := has.ReadySandbox(); box != nil {
		s.podIP = r.podIP(pod, has, box.ID)
	}
	return s
}

// begunOf is when the container's end began.
func (s *stopper) begunOf(id string) time.Time {
	s.mu.Lock()
	defer s.mu.Unlock()
	if at, told := s.told[id]; told {
		return at
	}
	return s.faulty(s.begun)
}

// deadline is when the container's grace period ends.
func (s *stopper) deadline(id string) time.Time {
	from := s.begunOf(id)
	if s.Since.After(from) {
		from = s.Since
	}
	return from.Add(time.Duration(s.Seconds) * time.Second)
}

// left is what is left of the container's grace period, in seconds, rounded up.
func (s *stopper) left(id string) int64 {
	return max(int64((s.deadline(id).Sub(s.cfg.Clock.Now())+time.Second-1)/time.Second), 0)
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
		if s.left(sidecars[0].ID) == 0 {
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
		"grace_seconds", s.left(c.ID), "reason", message)
	s.cfg.Events.Record(s.pod, c.Name, events.Normal, events.KillingContainer, message)
	s.mu.Lock()
	done := s.preStopped[c.ID]
	s.mu.Unlock()
	if c.PreStop == nil || s.Seconds == 0 || done || c.State != observed.Running {
		return
	}
	hookCtx, cancel := s.withDeadline(ctx, s.deadline(c.ID))
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

// tellingTime is how long a runtime that works takes at most to send a container its SIGTERM. It doesn't tell when it has: its answer comes
// when the container has ended.
const tellingTime = time.Second

// stop has the runtime stop the container within what is left.
func (s *stopper) stop(ctx context.Context, c observed.Container) error {
	s.mark(s.stopped, c.ID)
	told := time.AfterFunc(tellingTime, func() { s.noteTold(c.ID) })
	defer told.Stop()
	if err := ignoreGone(s.cfg.Runtime.StopContainer(ctx, c.ID, max(s.left(c.ID), minGrace))); err != nil {
		return fmt.Errorf("stop container %s (%s): %w", c.Name, c.ID, err)
	}
	return nil
}

// noteTold notes that the container has had its SIGTERM.
func (s *stopper) noteTold(id string) {
	begun := s.begunOf(id)
	s.RestoreTold(id, begun)
	if s.Told != nil {
		s.Told(id, begun)
	}
}

// RestoreTold takes the word that the container has had its SIGTERM, in an end that began at that time.
func (r *Runtime) RestoreTold(id string, begun time.Time) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.told[id] = begun
}

// withDeadline is ctx until that time by the Runtime's clock.
func (r *Runtime) withDeadline(ctx context.Context, deadline time.Time) (context.Context, func()) {
	ctx, cancel := context.WithCancel(ctx)
	timer := r.cfg.Clock.NewTimer(deadline.Sub(r.cfg.Clock.Now()))
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
