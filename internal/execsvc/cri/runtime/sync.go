package runtime

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/podstream/podstream/internal/execsvc/decide/actions"
	"github.com/podstream/podstream/internal/execsvc/decide/resize"
	"github.com/podstream/podstream/internal/execsvc/pod/events"
	"github.com/podstream/podstream/internal/execsvc/pod/observed"
	"github.com/podstream/podstream/internal/execsvc/pod/podmeta"
)

// SyncInput is the input of SyncPod.
type SyncInput struct {
	Pod *v1.Pod
	// Has is the pod's state in the runtime.
	Has *observed.Pod
	// Probes are the results of its containers' probes.
	Probes observed.Probes
	Setup  PodSetup
	// Lacks are the containers that can't start on this node, by name, with the reason. Nil: all can.
	Lacks map[string]string
	// Resizing is set if running containers may need other resources. Otherwise they keep theirs.
	Resizing bool
	// Replacing is called before containers of the pod are stopped so that successors start, with the IDs of all its
	// containers for which that was done and whose exit code could otherwise count as their own. After a restart the
	// caller gives them to RestoreReplaced. Nil: it isn't called.
	Replacing func(ctx context.Context, ids []string)
	// Requested are containers whose restart an operator has requested. Signaled is the Grace.Signaled of their stops.
	Requested actions.Requested
	Signaled  func(id string, begun time.Time)
}

// SyncResult is the result of SyncPod.
type SyncResult struct {
	// Waiting has the reason, by container name, why a container that should run doesn't.
	Waiting map[string]observed.Waiting
	// RetryAfter is when the earliest backoff ends. Zero: there is no backoff.
	RetryAfter time.Duration
	// Err joins all failures. A container that waits for a backoff or a pull is no failure.
	Err error
	// Resizing is set if SyncInput.Resizing was, and must be set again. Resize is the failure of the resize, if there
	// is one. It is part of Err.
	Resizing bool
	Resize   error
	// Acted is set if anything was changed, or a change was tried: the pod's state must be read again.
	Acted bool
}

// The reasons of a waiting container, besides those of package image, as in the kubelet (pkg/kubelet/container,
// pkg/kubelet/kuberuntime).
const (
	ContainerCreating          = "ContainerCreating"
	CreatePodSandboxError      = "CreatePodSandboxError"
	CrashLoopBackOff           = "CrashLoopBackOff"
	CreateContainerConfigError = "CreateContainerConfigError"
	CreateContainerError       = "CreateContainerError"
	RunContainerError          = "RunContainerError"
	PostStartHookError         = "PostStartHookError"
)

// SyncPod brings the pod one round closer to its spec. It is called again after each change and each failure.
func (r *Runtime) SyncPod(ctx context.Context, in SyncInput) SyncResult {
	s := &round{Runtime: r, SyncInput: in, res: SyncResult{Waiting: map[string]observed.Waiting{}}}
	if in.Resizing {
		s.changes = resize.Changes(in.Pod, in.Has, r.cfg.Node)
	}
	s.do = s.compute()
	began := r.cfg.Clock.Now()
	s.res.Resize = s.resize(ctx)
	if len(s.changes) > 0 {
		s.countResize(began, s.res.Resize)
	}
	s.res.Err = errors.Join(s.res.Resize, s.sync(ctx))
	s.res.Resizing = in.Resizing && (s.res.Resize != nil || s.unresized())
	s.releaseSlot()
	s.countRound()
	return s.res
}

// round is one SyncPod: the actions, and their results so far.
type round struct {
	*Runtime
	SyncInput
	do  actions.Actions
	res SyncResult
	// changes are the containers to resize.
	changes []resize.Change
	// ended is set once all containers that this round stops have ended.
	ended bool
	// hasSlot is set while this round holds one of the Runtime's start slots.
	hasSlot bool
	// addresses are the IPs of a sandbox that this round created, once they are read.
	addresses []string
	// newUsers is set once this round creates a sandbox with a user namespace.
	newUsers bool
}

func (s *round) compute() actions.Actions {
	return s.faulty(actions.Compute(actions.Input{Pod: s.Pod, Has: s.Has, Probes: s.Probes, Outgrown: s.outgrown(), Requested: s.Requested}))
}

func (s *round) sync(ctx context.Context) error {
	if s.do.RestartAll != nil {
		if s.inBackoff(*s.do.RestartAll, s.endOf(s.do.RestartAll.Last)) {
			return s.prune(ctx, s.Pod, s.Has)
		}
		if err := s.restartAll(ctx); err != nil {
			return err
		}
	}
	if !s.do.Any(s.Has) {
		return s.prune(ctx, s.Pod, s.Has)
	}
	s.dropInBackoff()
	asked := s.ask(ctx, s.do.Start)
	defer func() {
		// The images that are requested for later delay no other pod's start.
		s.releaseSlot()
		asked.wait()
	}()
	err := s.hold(ctx, asked)
	return errors.Join(err, s.act(ctx, asked), s.prune(ctx, s.Pod, s.Has))
}

// sandboxPause is the least time between the creation of two sandboxes of one pod: a sandbox that dies at once must not
// keep the node busy.
const sandboxPause = time.Second

// act carries out the actions, up to the first that must wait or fails.
func (s *round) act(ctx context.Context, asked *asked) error {
	if s.do.CreateSandbox && len(s.Has.Sandboxes) > 0 {
		box, now := &s.Has.Sandboxes[0], s.cfg.Clock.Now()
		if pause := sandboxPause - now.Sub(s.ages.Of(box.ID, now, box.Created)); pause > 0 {
			s.res.retry(pause)
			return nil
		}
	}
	if s.do.KillPod {
		s.res.Acted = true
		s.replaceWithSandbox(ctx)
		if err := s.KillPod(ctx, s.Pod, s.Has, Grace{Seconds: podmeta.GracePeriod(s.Pod)}); err != nil {
			return err
		}
	}
	if err := s.kill(ctx); err != nil {
		return err
	}
	s.ended = true
	if err := s.remove(ctx, false); err != nil {
		return err
	}
	if s.do.CreateSandbox {
		if err := s.createSandbox(ctx); err != nil {
			return err
		}
		// As with the kubelet, no container is tried without the pod's addresses.
		if _, err := s.ips(ctx); err != nil && ctx.Err() == nil {
			return err
		}
	}
	return s.start(ctx, asked)
}

// remove removes the containers that block others. With keepLogs it keeps the log of the last container of each name.
func (s *round) remove(ctx context.Context, keepLogs bool) error {
	for _, c := range s.do.Remove {
		s.res.Acted = true
		remove := s.removeContainer
		if keepLogs && s.Has.Latest(c.Name).ID == c.ID {
			remove = s.removeButLog
		}
		if err := remove(ctx, s.Pod.Namespace, s.Pod.Name, s.Pod.UID, c); err != nil {
			return err
		}
	}
	return nil
}

// restartAll removes all containers of the pod and decides again. Their last logs stay: the next containers take their
// restart counts from them.
func (s *round) restartAll(ctx context.Context) error {
	source := s.do.RestartAll
	s.log.Info("restarting all containers of the pod", "pod", podmeta.LogName(s.Pod), "uid", s.Pod.UID,
		"container", source.Container.Name, "exit_code", source.Last.ExitCode)
	s.cfg.Events.Record(s.Pod, source.Container.Name, events.Normal, events.RestartedAllContainers,
		fmt.Sprintf("Container %s exited with code %d, all containers will be restarted", source.Container.Name, source.Last.ExitCode))
	s.restarts.Next(restartKey(s.Pod, source.Container), s.endOf(source.Last))
	if err := s.kill(ctx); err != nil {
		return err
	}
	if err := s.remove(ctx, true); err != nil {
		return err
	}
	left := *s.Has
	left.Containers = slices.DeleteFunc(slices.Clone(left.Containers), func(c observed.Container) bool {
		return slices.ContainsFunc(s.do.Remove, func(gone observed.Container) bool { return gone.ID == c.ID })
	})
	s.Has = &left
	s.do = s.compute()
	return nil
}

// createSandbox creates the sandbox for the containers.
func (s *round) createSandbox(ctx context.Context) error {
	s.res.Acted = true
	if len(s.Has.Sandboxes) > 0 {
		s.cfg.Events.Record(s.Pod, "", events.Normal, events.SandboxChanged, "Pod sandbox changed, it will be killed and re-created.")
	}
	s.startsSandbox()
	id, err := s.runSandbox(ctx)
	if err != nil {
		if ctx.Err() != nil {
			// The pod or this agent is being stopped: the sandbox didn't fail.
			return fmt.Errorf("%s: %w", CreatePodSandboxError, err)
		}
		s.metrics.podErrors.Inc()
		message := err.Error()
		s.cfg.Events.Record(s.Pod, "", events.Warning, events.FailedCreatePodSandbox, "Failed to create pod sandbox: "+message)
		for i := range s.Pod.Spec.Containers {
			s.res.Waiting[s.Pod.Spec.Containers[i].Name] = observed.Waiting{Reason: ContainerCreating, Message: message}
		}
		return fmt.Errorf("%s: %w", CreatePodSandboxError, err)
	}
	s.log.Info("sandbox runs", "pod", podmeta.LogName(s.Pod), "uid", s.Pod.UID, "sandbox", id, "attempt", s.do.SandboxAttempt)
	s.do.SandboxID = id
	return nil
}

func (s *round) runSandbox(ctx context.Context) (string, error) {
	config, given, err := s.sandboxConfig()
	if err != nil {
		return "", err
	}
	handler, err := s.Setup.RuntimeHandler(s.Pod)
	if err != nil {
		return "", err
	}
	for _, w := range given.Warnings {
		s.cfg.Events.Record(s.Pod, "", events.Warning, w.Reason, w.Message)
	}
	if err := os.MkdirAll(config.GetLogDirectory(), 0o755); err != nil {
		return "", fmt.Errorf("make the pod's log directory: %w", err)
	}
	if err := s.acquireSlot(ctx); err != nil {
		return "", err
	}
	patient, cancel := finishWithin(ctx, sandboxPatience)
	defer cancel()
	return s.cfg.Runtime.RunPodSandbox(patient, config, handler)
}

// acquireSlot waits for a start slot. The round holds it until releaseSlot, or the round's end.
func (s *round) acquireSlot(ctx context.Context) error {
	if s.hasSlot {
		return nil
	}
	if err := s.starts.acquire(ctx); err != nil {
		return fmt.Errorf("wait for other pods' starts: %w", err)
	}
	s.hasSlot = true
	return nil
}

func (s *round) releaseSlot() {
	if s.hasSlot {
		s.starts.release()
	}
	s.hasSlot = false
}

// retry records when a backoff ends.
func (res *SyncResult) retry(after time.Duration) {
	if after > 0 && (res.RetryAfter == 0 || after < res.RetryAfter) {
		res.RetryAfter = after
	}
}
