package runtime

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"google.golang.org/grpc/status"
	v1 "k8s.io/api/core/v1"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/podstream/podstream/internal/execsvc/actions"
	"github.com/podstream/podstream/internal/execsvc/criconfig"
	"github.com/podstream/podstream/internal/execsvc/events"
	"github.com/podstream/podstream/internal/execsvc/objects"
	"github.com/podstream/podstream/internal/execsvc/observed"
)

// start makes and starts the containers in order. One whose image is still on its way keeps those after it from starting; one
// that fails doesn't.
func (s *round) start(ctx context.Context, asked *asked) error {
	var errs []error
	pulling := ""
	for _, start := range s.do.Start {
		name := start.Container.Name
		if err := ctx.Err(); err != nil {
			return errors.Join(append(errs, err)...)
		}
		if pulling != "" && !start.Ephemeral {
			s.res.Waiting[name] = observed.Waiting{Reason: ContainerCreating, Message: "waiting for the image of container " + pulling}
			continue
		}
		got := asked.of(name)
		if got.wait != nil {
			if got.wait.Pulling && !start.Ephemeral {
				pulling = name
			}
			if err := s.waitForImage(name, got); err != nil {
				errs = append(errs, fmt.Errorf("container %s: %w", name, err))
			}
			continue
		}
		if err := s.startContainer(ctx, start, got); err != nil {
			errs = append(errs, fmt.Errorf("container %s: %w", name, err))
		}
	}
	return errors.Join(errs...)
}

// startContainer makes and starts one container, and carries out its postStart hook.
func (s *round) startContainer(ctx context.Context, start actions.Start, images *answer) error {
	sandbox, given, err := s.sandboxConfig()
	if err != nil {
		return s.failed(start, "", CreateContainerConfigError, err)
	}
	config, err := s.containerConfig(ctx, &start, images, given.UserNamespace)
	if errors.Is(err, objects.ErrUnknown) {
		// It comes by a stream of its own, mostly in a moment, and wakes the pod.
		s.res.Waiting[start.Container.Name] = observed.Waiting{Reason: ContainerCreating, Message: err.Error()}
		return err
	}
	if err != nil {
		return s.failed(start, "", CreateContainerConfigError, err)
	}
	if err := os.MkdirAll(filepath.Join(sandbox.GetLogDirectory(), start.Container.Name), 0o755); err != nil {
		return s.failed(start, "", CreateContainerError, fmt.Errorf("make the container's log directory: %w", err))
	}
	if err := s.takeTurn(ctx); err != nil {
		return err
	}
	s.countRestart(start)
	s.res.Acted = true
	// A runtime takes a start that is cut short for a failed one, and the container for dead. These two calls don't take long, so
	// they are finished also while the pod is being removed or this agent ends.
	whole := context.WithoutCancel(ctx)
	id, err := s.cfg.Runtime.CreateContainer(whole, s.do.SandboxID, config, sandbox)
	if err != nil {
		return s.failed(start, "", CreateContainerError, err)
	}
	s.cfg.Events.Record(s.Pod, start.Container.Name, events.Normal, events.CreatedContainer, "Container created")
	// Linked first: if this agent is killed in between, nobody comes back for the link of a container that runs.
	linked := s.linkLog(s.Pod, start, id)
	if err := s.cfg.Runtime.StartContainer(whole, id); err != nil {
		s.mark(s.failedStarts, id)
		return s.failed(start, id, RunContainerError, err)
	}
	s.cfg.Events.Record(s.Pod, start.Container.Name, events.Normal, events.StartedContainer, "Container started")
	s.log.Info("container runs", "pod", podName(s.Pod), "uid", s.Pod.UID, "container", start.Container.Name, "id", id, "attempt", start.Attempt)
	return errors.Join(linked, s.postStart(ctx, start, id))
}

// containerConfig is what the runtime is told of the container. Its attempt is set if only the logs tell of those before it.
func (s *round) containerConfig(
	ctx context.Context, start *actions.Start, images *answer, users *criconfig.UserNamespace,
) (*runtimeapi.ContainerConfig, error) {
	target := ""
	if start.Target != "" {
		c := s.Has.Latest(start.Target)
		if c == nil {
			return nil, fmt.Errorf("unable to find target container %s", start.Target)
		}
		target = c.ID
	}
	if start.Last == nil {
		attempt, err := s.attemptAfterLogs(s.Pod, start.Container.Name)
		if err != nil {
			return nil, err
		}
		start.Attempt = attempt
	}
	ips, err := s.ips(ctx)
	if err != nil {
		return nil, err
	}
	given, err := s.World.Container(ctx, s.Pod, start.Container, ips)
	if err != nil {
		return nil, err
	}
	for _, m := range given.Mounts {
		if m.Image != nil {
			m.Image.Ref = images.volumes[m.Image.Ref]
		}
	}
	return criconfig.ContainerConfig(criconfig.ContainerInput{
		Pod: s.Pod, Container: start.Container, Attempt: start.Attempt, ImageRef: images.image.GetId(), ImageUser: criconfig.ImageUserOf(images.image),
		Env: given.Env, Mounts: s.withMessageFile(given.Mounts, s.Pod, start.Container, start.Attempt),
		TargetID: target, Agent: s.cfg.Agent, UserNamespace: users, Node: s.cfg.Node,
	})
}

// failurePause is when to go on with a container that was made and has failed as it was started: from then on it is one that has ended, and
// has the pauses of those.
const failurePause = time.Second

// failed notes why a container couldn't be started. id is its own, if it has one already.
func (s *round) failed(start actions.Start, id, reason string, err error) error {
	message := status.Convert(err).Message()
	s.res.Waiting[start.Container.Name] = observed.Waiting{Reason: reason, Message: message}
	if id != "" {
		s.res.retry(failurePause)
		// Ids would make a new event of each attempt.
		message = strings.ReplaceAll(message, id, start.Container.Name)
	}
	s.cfg.Events.Record(s.Pod, start.Container.Name, events.Warning, events.FailedToStart, "Error: "+message)
	return fmt.Errorf("%s: %w", reason, err)
}

// postStart carries out the hook of a container that has just started. If the hook fails the container is stopped.
func (s *round) postStart(ctx context.Context, start actions.Start, id string) error {
	c := start.Container
	if c.Lifecycle == nil || c.Lifecycle.PostStart == nil {
		return nil
	}
	// A hook takes as long as it likes.
	s.endTurn()
	started := observed.Container{
		ID: id, Name: c.Name, SandboxID: s.do.SandboxID, State: observed.Running, PreStop: c.Lifecycle.PreStop, Ports: c.Ports,
	}
	ip, err := s.addressFor(ctx, c.Lifecycle.PostStart)
	if err == nil {
		err = s.hook(ctx, targetOf(s.Pod, started, ip), c.Lifecycle.PostStart)
	}
	switch {
	case err == nil:
		return nil
	case ctx.Err() != nil:
		// The pod is being ended, or this agent is: neither is the container's fault.
		return fmt.Errorf("the postStart hook was cut short: %w", ctx.Err())
	}
	// What a hook says may be secret: it isn't put into events.
	s.cfg.Events.Record(s.Pod, c.Name, events.Warning, events.FailedPostStartHook, "PostStartHook failed")
	s.res.Waiting[c.Name] = observed.Waiting{Reason: PostStartHookError, Message: err.Error()}
	s.res.retry(failurePause)
	err = fmt.Errorf("%s: %w", PostStartHookError, err)
	// Its grace period begins now, however long the hook took.
	stop := s.stopper(s.Pod, s.Has, Grace{Seconds: criconfig.GracePeriod(s.Pod)})
	if c.Lifecycle.PreStop != nil {
		// Without an address its own hook fails, and says so.
		stop.podIP, _ = s.addressFor(ctx, c.Lifecycle.PreStop)
	}
	return errors.Join(err, stop.end(ctx, started, fmt.Sprintf("Container %s failed postStart hook", c.Name)))
}

// addressFor is the pod's address, if the hook may need one. That of a new sandbox is asked for.
func (s *round) addressFor(ctx context.Context, hook *v1.LifecycleHandler) (string, error) {
	if hook.HTTPGet == nil && hook.TCPSocket == nil {
		return "", nil
	}
	ips, err := s.ips(ctx)
	if err != nil || len(ips) == 0 {
		return "", err
	}
	return ips[0], nil
}
