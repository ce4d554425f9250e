package runtime

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"time"

	"golang.org/x/sync/errgroup"
	"google.golang.org/grpc/status"
	v1 "k8s.io/api/core/v1"

	"github.com/podstream/podstream/internal/execsvc/actions"
	"github.com/podstream/podstream/internal/execsvc/criconfig"
	"github.com/podstream/podstream/internal/execsvc/events"
	"github.com/podstream/podstream/internal/execsvc/observed"
	"github.com/podstream/podstream/internal/execsvc/resize"
)

// SyncInput is what SyncPod works on.
type SyncInput struct {
	Pod *v1.Pod
	// Has is what the runtime has of the pod.
	Has *observed.Pod
	// Probes are what the probes of its containers say.
	Probes observed.Probes
	World  World
	// Resizing is set if running containers may have to be given other resources. Otherwise they keep what they have.
	Resizing bool
}

// SyncResult is what came of a SyncPod.
type SyncResult struct {
	// Waiting tells, by container name, why a container that should run doesn't.
	Waiting map[string]observed.Waiting
	// RetryAfter is when the earliest backoff ends. Zero: nothing waits for one.
	RetryAfter time.Duration
	// Err joins what went wrong. Containers that wait for a backoff or a pull are no errors.
	Err error
	// Resizing is set if Resizing was, and has to be again; Resize is why, if something went wrong. It is part of Err.
	Resizing bool
	Resize   error
	// Acted is set if anything was changed, or tried to be: what the runtime has must be read again.
	Acted bool
}

// The reasons of a container that waits, but for those of package image, as the kubelet has them (pkg/kubelet/container,
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

// SyncPod takes the pod one round nearer to what it should be. It is called again after each change and each failure.
func (r *Runtime) SyncPod(ctx context.Context, in SyncInput) SyncResult {
	s := &round{Runtime: r, SyncInput: in, res: SyncResult{Waiting: map[string]observed.Waiting{}}}
	if in.Resizing {
		s.changes = resize.Changes(in.Pod, in.Has, r.cfg.Node)
	}
	s.do = s.compute()
	s.res.Resize = s.resize(ctx)
	s.res.Err = errors.Join(s.res.Resize, s.sync(ctx))
	s.res.Resizing = in.Resizing && (s.res.Resize != nil || s.unresized())
	s.endTurn()
	return s.res
}

// round is one SyncPod: what is to be done, and what has come of it so far.
type round struct {
	*Runtime
	SyncInput
	do  actions.Actions
	res SyncResult
	// changes are the containers to resize.
	changes []resize.Change
	// ended is set once what do ends has ended.
	ended bool
	// inTurn is set while this round has one of the Runtime's turns.
	inTurn bool
	// addresses are those of a sandbox that this round has made, once they were asked for.
	addresses []string
}

func (s *round) compute() actions.Actions {
	return s.faulty(actions.Compute(actions.Input{Pod: s.Pod, Has: s.Has, Probes: s.Probes, Outgrown: s.outgrown()}))
}

func (s *round) sync(ctx context.Context) error {
	if s.do.RestartAll != nil {
		if s.inBackoff(*s.do.RestartAll, s.do.RestartAll.Last.Finished) {
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
	defer asked.wait()
	err := s.hold(asked)
	return errors.Join(err, s.act(ctx, asked), s.prune(ctx, s.Pod, s.Has))
}

// sandboxPause is the least time between two sandboxes of one pod: one that dies as soon as it is made must not keep the node busy.
const sandboxPause = time.Second

// act does what was decided, as far as it goes.
func (s *round) act(ctx context.Context, asked *asked) error {
	if s.do.CreateSandbox && len(s.Has.Sandboxes) > 0 {
		if pause := sandboxPause - s.cfg.Clock.Since(s.Has.Sandboxes[0].Created); pause > 0 {
			s.res.retry(pause)
			return nil
		}
	}
	if s.do.KillPod {
		s.res.Acted = true
		s.markReplaced()
		if err := s.KillPod(ctx, s.Pod, s.Has, Grace{Seconds: criconfig.GracePeriod(s.Pod)}); err != nil {
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
	}
	return s.start(ctx, asked)
}

// markReplaced notes which of the containers that run on in a sandbox that is replaced have not had their end by that.
func (s *round) markReplaced() {
	if !s.do.CreateSandbox {
		return
	}
	for i := range s.Pod.Spec.Containers {
		c := &s.Pod.Spec.Containers[i]
		if last := s.Has.Latest(c.Name); last != nil && last.State == observed.Running && actions.Restarts(s.Pod, c, last) {
			s.mark(s.replaced, last.ID)
		}
	}
}

// kill stops the containers that can't go on, all at once.
func (s *round) kill(ctx context.Context) error {
	var group errgroup.Group
	for _, k := range s.do.Kill {
		s.res.Acted = true
		message := fmt.Sprintf("Container %s %s", k.Container.Name, k.Reason)
		if k.Restart {
			message += ", will be restarted"
			s.mark(s.replaced, k.Container.ID)
		}
		group.Go(func() error {
			return s.stopper(s.Pod, s.Has, Grace{Seconds: k.Grace}).end(ctx, k.Container, message)
		})
	}
	return group.Wait()
}

// remove removes the containers that make room for others. If their logs are to be kept, those of the last of each name are.
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

// restartAll takes all containers of the pod away and decides anew. Their last logs stay: by them the next ones count their
// restarts.
func (s *round) restartAll(ctx context.Context) error {
	source := s.do.RestartAll
	s.log.Info("restarting all containers of the pod", "pod", podName(s.Pod), "uid", s.Pod.UID,
		"container", source.Container.Name, "exit_code", source.Last.ExitCode)
	s.cfg.Events.Record(s.Pod, source.Container.Name, events.Normal, events.RestartedAllContainers,
		fmt.Sprintf("Container %s exited with code %d, all containers will be restarted", source.Container.Name, source.Last.ExitCode))
	s.restarts.Next(restartKey(s.Pod, source.Container), source.Last.Finished)
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

// createSandbox makes the sandbox that the containers go into.
func (s *round) createSandbox(ctx context.Context) error {
	s.res.Acted = true
	if len(s.Has.Sandboxes) > 0 {
		s.cfg.Events.Record(s.Pod, "", events.Normal, events.SandboxChanged, "Pod sandbox changed, it will be killed and re-created.")
	}
	id, err := s.runSandbox(ctx)
	if err != nil {
		message := status.Convert(err).Message()
		if ctx.Err() == nil {
			s.cfg.Events.Record(s.Pod, "", events.Warning, events.FailedCreatePodSandbox, "Failed to create pod sandbox: "+message)
		}
		for i := range s.Pod.Spec.Containers {
			s.res.Waiting[s.Pod.Spec.Containers[i].Name] = observed.Waiting{Reason: ContainerCreating, Message: message}
		}
		return fmt.Errorf("%s: %w", CreatePodSandboxError, err)
	}
	s.log.Info("sandbox runs", "pod", podName(s.Pod), "uid", s.Pod.UID, "sandbox", id, "attempt", s.do.SandboxAttempt)
	s.do.SandboxID = id
	return nil
}

func (s *round) runSandbox(ctx context.Context) (string, error) {
	config, given, err := s.sandboxConfig()
	if err != nil {
		return "", err
	}
	handler, err := s.World.Handler(s.Pod)
	if err != nil {
		return "", err
	}
	for _, w := range given.Warnings {
		s.cfg.Events.Record(s.Pod, "", events.Warning, w.Reason, w.Message)
	}
	if err := os.MkdirAll(config.GetLogDirectory(), 0o755); err != nil {
		return "", fmt.Errorf("make the pod's log directory: %w", err)
	}
	if err := s.takeTurn(ctx); err != nil {
		return "", err
	}
	id, err := s.cfg.Runtime.RunPodSandbox(ctx, config, handler)
	if err != nil {
		return "", fmt.Errorf("run sandbox: %w", err)
	}
	return id, nil
}

// takeTurn waits until this pod may be started beside others. It has its turn until endTurn, or the round's end.
func (s *round) takeTurn(ctx context.Context) error {
	if s.inTurn {
		return nil
	}
	if err := s.turns.take(ctx); err != nil {
		return fmt.Errorf("wait for other pods' starts: %w", err)
	}
	s.inTurn = true
	return nil
}

func (s *round) endTurn() {
	if s.inTurn {
		s.turns.give()
	}
	s.inTurn = false
}

// retry notes when a backoff ends.
func (res *SyncResult) retry(after time.Duration) {
	if after > 0 && (res.RetryAfter == 0 || after < res.RetryAfter) {
		res.RetryAfter = after
	}
}

func podName(pod *v1.Pod) string { return pod.Namespace + "/" + pod.Name }
