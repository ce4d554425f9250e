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

	"github.com/podstream/podstream/internal/execsvc/decide/actions"
	"github.com/podstream/podstream/internal/execsvc/pod/criconfig"
	"github.com/podstream/podstream/internal/execsvc/pod/events"
	"github.com/podstream/podstream/internal/execsvc/pod/objects"
	"github.com/podstream/podstream/internal/execsvc/pod/observed"
	"github.com/podstream/podstream/internal/execsvc/pod/podmeta"
)

// start creates and starts the containers in order. One whose image isn't there yet delays those after it; one that
// fails doesn't.
func (s *round) start(ctx context.Context, asked *asked) error {
	var errs []error
	pulling := ""
	for _, start := range s.do.Start {
		name := start.Container.Name
		if err := ctx.Err(); err != nil {
			return errors.Join(append(errs, err)...)
		}
		if start.Await {
			s.res.Waiting[name] = observed.Waiting{Reason: ContainerCreating, Message: "waiting for the sidecars that restart with it to start"}
			continue
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
			if err := s.waitForImage(ctx, name, got); err != nil {
				if ctx.Err() == nil {
					s.countStart(&start)
					s.countFailure(&start, got.wait.Reason)
				}
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

// startContainer creates and starts one container, and runs its postStart hook.
func (s *round) startContainer(ctx context.Context, start actions.Start, images *answer) error {
	s.countStart(&start)
	if why, lacks := s.Lacks[start.Container.Name]; lacks {
		return s.failed(start, "", CreateContainerConfigError, errors.New(why))
	}
	sandbox, given, err := s.sandboxConfig()
	if err != nil {
		return s.failed(start, "", CreateContainerConfigError, err)
	}
	config, err := s.containerConfig(ctx, &start, images, &given)
	if errors.Is(err, objects.ErrUnknown) {
		// The object arrives on a stream of its own, usually in a moment, and wakes the pod.
		s.res.Waiting[start.Container.Name] = observed.Waiting{Reason: ContainerCreating, Message: err.Error()}
		return err
	}
	if err != nil {
		return s.failed(start, "", CreateContainerConfigError, err)
	}
	if err := os.MkdirAll(filepath.Join(sandbox.GetLogDirectory(), start.Container.Name), 0o755); err != nil {
		return s.failed(start, "", CreateContainerError, fmt.Errorf("make the container's log directory: %w", err))
	}
	if err := s.acquireSlot(ctx); err != nil {
		return err
	}
	s.countRestart(start)
	s.cfg.Images.Used(s.Pod.UID, start.Container.Name)
	s.res.Acted = true
	// A runtime treats an interrupted start as a failed one, and the container as dead. These two calls are short, so
	// they are finished also while the pod is being removed or this agent stops. See finishWithin for sandboxes.
	whole := context.WithoutCancel(ctx)
	id, err := s.cfg.Runtime.CreateContainer(whole, s.do.SandboxID, config, sandbox)
	s.countImageVolumes(config, err)
	if err != nil {
		return s.failed(start, "", CreateContainerError, err)
	}
	s.cfg.Events.Record(s.Pod, start.Container.Name, events.Normal, events.CreatedContainer, "Container created")
	// The link comes first: if this agent is killed in between, nothing creates the link of a running container later.
	linked := s.linkLog(s.Pod, start, id)
	if err := s.cfg.Runtime.StartContainer(whole, id); err != nil {
		s.mark(s.failedStarts, id)
		return s.failed(start, id, RunContainerError, err)
	}
	s.cfg.Events.Record(s.Pod, start.Container.Name, events.Normal, events.StartedContainer, "Container started")
	s.log.Info("container runs", "pod", podmeta.LogName(s.Pod), "uid", s.Pod.UID, "container", start.Container.Name, "id", id, "attempt", start.Attempt)
	return errors.Join(linked, s.postStart(ctx, start, id))
}

// containerConfig returns the CRI config of the container. It sets the attempt if only the logs show the earlier ones.
func (s *round) containerConfig(
	ctx context.Context, start *actions.Start, images *answer, options *SandboxOptions,
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
	given, err := s.Setup.ContainerOptions(ctx, s.Pod, start.Container, ips)
	if err != nil {
		return nil, err
	}
	for _, m := range given.Mounts {
		if m.Image != nil {
			m.Image.Ref = images.volumes[m.Image.Given]
		}
	}
	return criconfig.ContainerConfig(criconfig.ContainerInput{
		Pod: s.Pod, Container: start.Container, Attempt: start.Attempt, ImageRef: images.image.GetId(), ImageUser: criconfig.ImageUserOf(images.image),
		Env: given.Env, Mounts: s.withMessageFile(given.Mounts, s.Pod, start.Container, start.Attempt),
		Devices: given.Devices, TargetID: target, Agent: s.cfg.Agent, UserNamespace: options.UserNamespace, ExtraGroups: options.ExtraGroups,
		Node: s.cfg.Node,
	})
}

// failurePause is when to continue with a container that was created but failed to start. From then on it counts as
// ended, and has the restart backoff.
const failurePause = time.Second

// failed records why a container couldn't be started. id is its ID, if it has one.
func (s *round) failed(start actions.Start, id, reason string, err error) error {
	message := status.Convert(err).Message()
	s.res.Waiting[start.Container.Name] = observed.Waiting{Reason: reason, Message: message}
	s.countFailure(&start, reason)
	if id != "" {
		s.res.retry(failurePause)
		// With IDs each attempt would be a new event.
		message = strings.ReplaceAll(message, id, start.Container.Name)
	}
	s.cfg.Events.Record(s.Pod, start.Container.Name, events.Warning, events.FailedToStart, "Error: "+message)
	return fmt.Errorf("%s: %w", reason, err)
}

// postStart runs the hook of a container that has just started. If the hook fails, the container is stopped.
func (s *round) postStart(ctx context.Context, start actions.Start, id string) error {
	c := start.Container
	if c.Lifecycle == nil || c.Lifecycle.PostStart == nil {
		return nil
	}
	// A hook may take any time.
	s.releaseSlot()
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
		// The pod or this agent is being stopped: the hook didn't fail.
		return fmt.Errorf("the postStart hook was interrupted: %w", ctx.Err())
	}
	// The hook's output may be secret: it isn't recorded in events.
	s.cfg.Events.Record(s.Pod, c.Name, events.Warning, events.FailedPostStartHook, "PostStartHook failed")
	s.res.Waiting[c.Name] = observed.Waiting{Reason: PostStartHookError, Message: err.Error()}
	s.countFailure(&start, PostStartHookError)
	s.res.retry(failurePause)
	err = fmt.Errorf("%s: %w", PostStartHookError, err)
	// The grace period starts now, however long the hook took.
	stop := s.stopper(s.Pod, s.Has, Grace{Seconds: podmeta.GracePeriod(s.Pod)})
	if c.Lifecycle.PreStop != nil {
		// Without an IP its own hook fails, with a message.
		stop.podIP, _ = s.addressFor(ctx, c.Lifecycle.PreStop)
	}
	return errors.Join(err, stop.end(ctx, started, fmt.Sprintf("Container %s failed postStart hook", c.Name)))
}

// addressFor returns the pod's IP if the hook may need one. It reads the IP of a new sandbox from the runtime.
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
