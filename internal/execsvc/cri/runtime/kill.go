package runtime

import (
	"cmp"
	"context"
	"errors"
	"math"
	"slices"
	"sync"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	v1 "k8s.io/api/core/v1"
	utilerrors "k8s.io/apimachinery/pkg/util/errors"

	"github.com/podstream/podstream/internal/execsvc/cri/handler"
	"github.com/podstream/podstream/internal/execsvc/machine/walltime"
	"github.com/podstream/podstream/internal/execsvc/pod/events"
	"github.com/podstream/podstream/internal/execsvc/pod/observed"
	"github.com/podstream/podstream/internal/execsvc/pod/podmeta"
)

// minGrace is the least time, in seconds, between a container's SIGTERM and its SIGKILL.
const minGrace = 2

// longestGrace is some 68 years, in seconds. Longer ones could overflow a time.Duration.
const longestGrace = math.MaxInt32

// Grace is the grace period of a pod's containers.
type Grace struct {
	// Seconds is the grace period of each container, from the start of its termination: its hook, or its SIGTERM. With
	// zero no hooks run.
	Seconds int64
	// Since is when the period was set: a container whose termination started before has Seconds from then. Zero: no
	// period was set before.
	Since time.Time
	// Signaled is called, from any goroutine, when a container that still runs has had its SIGTERM, with the start of
	// its termination. After a restart the caller gives that time to RestoreSignaled. Nil: it isn't reported.
	Signaled func(id string, begun time.Time)
}

// KillPod stops all containers of the pod, and then its sandboxes. preStop hooks start at once. Main and ephemeral
// containers stop once their hooks are done, and sidecars in reverse order once the main ones have ended. Of the pod's
// spec only the init and ephemeral containers are used; they may be missing. A container that has stopped already is no
// error. Called again after a failure, or by another podexecd, it continues the grace period of a container that has
// had its SIGTERM; any other has its whole grace period. A container that couldn't be stopped within its grace period,
// over all calls, no longer delays those after it.
func (r *Runtime) KillPod(ctx context.Context, pod *v1.Pod, has *observed.Pod, grace Grace) error {
	if err := r.stopper(pod, has, grace).endAll(ctx, has); err != nil {
		return err
	}
	var failed []error
	for _, s := range has.Sandboxes {
		// A sandbox that isn't ready may still hold its network.
		if err := ignoreGone(r.cfg.Runtime.StopPodSandbox(ctx, s.ID)); err != nil {
			failed = append(failed, &killError{"KillPodSandbox", string(has.UID), err})
		}
	}
	return utilerrors.NewAggregate(failed)
}

// stopper stops containers of one pod.
type stopper struct {
	*Runtime
	Grace
	pod   *v1.Pod
	podIP string
	// begun is when this stopper started. The termination of each container starts then, unless it started before.
	begun time.Time
	// messages are those of the events, by container ID. One that isn't there is the kubelet's.
	messages map[string]string
}

func (r *Runtime) stopper(pod *v1.Pod, has *observed.Pod, grace Grace) *stopper {
	grace.Seconds = min(max(grace.Seconds, 0), longestGrace)
	s := &stopper{Runtime: r, Grace: grace, pod: pod, begun: r.cfg.Clock.Now()}
	if !s.Since.IsZero() {
		s.Since = walltime.Reading(s.begun, s.Since)
	}
	if box := has.ReadySandbox(); box != nil {
		s.podIP = r.podIP(pod, has, box.ID)
	}
	return s
}

// begunOf returns when the container's termination started.
func (s *stopper) begunOf(id string) time.Time {
	s.mu.Lock()
	defer s.mu.Unlock()
	if at, ok := s.signaled[id]; ok {
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

// left returns the rest of the container's grace period, in seconds, rounded up.
func (s *stopper) left(id string) int64 {
	return max(int64((s.deadline(id).Sub(s.cfg.Clock.Now())+time.Second-1)/time.Second), 0)
}

// end stops one container: first its hook runs.
func (s *stopper) end(ctx context.Context, c observed.Container, message string) error {
	s.prepare(ctx, c, message)
	return s.stop(ctx, c)
}

// prepare records that the container is being stopped, and runs its preStop hook unless it has run before. The
// container stops whatever the result.
func (s *stopper) prepare(ctx context.Context, c observed.Container, message string) {
	message = cmp.Or(message, s.messages[c.ID], "Stopping container "+c.Name)
	s.log.Info("stopping container", "pod", podmeta.LogName(s.pod), "uid", s.pod.UID, "container", c.Name, "id", c.ID,
		"grace_seconds", s.left(c.ID), "reason", message)
	s.cfg.Events.Record(s.pod, c.Name, events.Normal, events.KillingContainer, message)
	s.mu.Lock()
	_, signaled := s.signaled[c.ID] // by an earlier podexecd too: the signal comes after the hook
	done := s.preStopped[c.ID] || signaled
	s.mu.Unlock()
	if c.PreStop == nil || s.Seconds == 0 || done || c.State != observed.Running {
		return
	}
	hookCtx, cancel := s.withDeadline(ctx, s.deadline(c.ID))
	defer cancel()
	err := s.hook(hookCtx, targetOf(s.pod, c, s.podIP), c.PreStop)
	if ctx.Err() != nil {
		// Interrupted: the next call runs the hook again.
		return
	}
	s.mark(s.preStopped, c.ID)
	if err != nil {
		s.log.Warn("preStop hook failed", "pod", podmeta.LogName(s.pod), "uid", s.pod.UID, "container", c.Name, "error", err)
		s.cfg.Events.Record(s.pod, c.Name, events.Warning, events.FailedPreStopHook, "PreStopHook failed")
	}
}

// signalDelay is how long a working runtime takes at most to send a container its SIGTERM. It doesn't report the
// signal: its answer comes when the container has ended.
const signalDelay = time.Second

// stop makes the runtime stop the container within the rest of its grace period.
func (s *stopper) stop(ctx context.Context, c observed.Container) error {
	s.mark(s.stopped, c.ID)
	timer := time.AfterFunc(signalDelay, func() { s.noteSignaled(c.ID) })
	defer timer.Stop()
	if err := ignoreGone(s.cfg.Runtime.StopContainer(ctx, c.ID, max(s.left(c.ID), minGrace))); err != nil {
		return &killError{"KillContainer", c.Name, err}
	}
	s.confirm(c.ID)
	return nil
}

// noteSignaled records that the container has had its SIGTERM.
func (s *stopper) noteSignaled(id string) {
	begun := s.begunOf(id)
	s.RestoreSignaled(id, begun)
	if s.Signaled != nil {
		s.Signaled(id, begun)
	}
}

// RestoreSignaled records that the container has had its SIGTERM, in a termination that started at that time. A time in
// the future counts as now.
func (r *Runtime) RestoreSignaled(id string, begun time.Time) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.signaled[id] = walltime.Reading(r.cfg.Clock.Now(), begun)
}

// withDeadline returns ctx with that deadline by the Runtime's clock.
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

// targetOf returns the container as the target of its hooks.
func targetOf(pod *v1.Pod, c observed.Container, podIP string) handler.Target {
	return handler.Target{Pod: pod, Container: c.Name, ContainerID: c.ID, Ports: c.Ports, PodIP: podIP}
}

func (r *Runtime) hook(ctx context.Context, target handler.Target, hook *v1.LifecycleHandler) error {
	if r.cfg.Hooks == nil {
		return errors.New("hooks are not run here")
	}
	return r.cfg.Hooks.Hook(ctx, target, hook)
}

// podIP returns the IP for a hook's requests to the pod, or "" if the reading doesn't have it.
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

// ignoreGone returns err, or nil if err says that the container or sandbox isn't found. The CRI requires runtimes to
// return success then, but not every runtime does.
func ignoreGone(err error) error {
	if status.Code(err) == codes.NotFound {
		return nil
	}
	return err
}
