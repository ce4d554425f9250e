package runtime

import (
	"context"
	"errors"
	"fmt"
	"github.com/podstream/podstream/internal/execsvc/actions"
	"github.com/podstream/podstream/internal/execsvc/observed"
	"os"
	"path/filepath"
	"slices"
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/podstream/podstream/internal/execsvc/criconfig"
)

// SyncInput is what SyncPod works on.
type SyncInput struct {
	Pod *v1.Pod
	// Has is what the runtime has of the pod, read just now.
	Has *observed.Pod
	// Mounts are the volumes of a container, set up.
	Mounts func(*v1.Container) ([]criconfig.Mount, error)
}

// SyncResult is what came of a SyncPod.
type SyncResult struct {
	// Waiting tells, by container name, why a container that should run doesn't.
	Waiting map[string]Waiting
	// RetryAfter is when the earliest backoff ends. Zero: nothing waits for one.
	RetryAfter time.Duration
	// Err joins what went wrong. Containers in backoff are no errors.
	Err error
	// Acted is set if anything was changed, or tried to be: what the runtime has must be read again.
	Acted bool
}

// Waiting is the reason, as users know it from kubectl, that a container doesn't run.
type Waiting struct {
	Reason, Message string
}

// The reasons of Waiting, as the kubelet has them (pkg/kubelet/container, pkg/kubelet/images).
const (
	CreatePodSandboxError      = "CreatePodSandboxError"
	CrashLoopBackOff           = "CrashLoopBackOff"
	CreateContainerConfigError = "CreateContainerConfigError"
	CreateContainerError       = "CreateContainerError"
	RunContainerError          = "RunContainerError"
	ErrImagePull               = "ErrImagePull"
	ErrImageNeverPull          = "ErrImageNeverPull"
	ImagePullBackOff           = "ImagePullBackOff"
	ImageInspectError          = "ImageInspectError"
)

// SyncPod takes the pod one round nearer to what it should be. It is called again after each change and each failure.
func (r *Runtime) SyncPod(ctx context.Context, in SyncInput) SyncResult {
	res := SyncResult{Waiting: map[string]Waiting{}}
	do := actions.Compute(in.Pod, in.Has)
	err := r.holdBack(ctx, in.Pod, &do, &res)
	if !do.Any(in.Has) {
		res.Err = errors.Join(err, r.prune(ctx, in))
		return res
	}
	res.Acted = true
	res.Err = errors.Join(err, r.act(ctx, in, do, &res))
	return res
}

// holdBack takes the replacements out of do whose images aren't there: what runs goes on until its successor can start.
func (r *Runtime) holdBack(ctx context.Context, pod *v1.Pod, do *actions.Actions, res *SyncResult) error {
	var errs []error
	do.Kill = slices.DeleteFunc(do.Kill, func(k actions.Kill) bool {
		i := slices.IndexFunc(do.Start, func(s actions.Start) bool { return s.Container.Name == k.Container.Name })
		if i < 0 {
			return false
		}
		_, wait, err := r.ensureImage(ctx, pod, do.Start[i].Container)
		if wait == nil {
			return false
		}
		if err != nil {
			errs = append(errs, fmt.Errorf("replace container %s: %w; the one before goes on", k.Container.Name, err))
		}
		res.retry(wait.pause)
		do.Start = slices.Delete(do.Start, i, i+1)
		return true
	})
	return errors.Join(errs...)
}

// act does what was decided, as far as it goes.
func (r *Runtime) act(ctx context.Context, in SyncInput, do actions.Actions, res *SyncResult) error {
	if do.KillPod {
		if err := r.KillPod(ctx, in.Has, criconfig.GracePeriod(in.Pod)); err != nil {
			return err
		}
	}
	for _, k := range do.Kill {
		r.log.Info("stopping container", "pod", podName(in.Pod), "container", k.Container.Name, "reason", k.Reason)
		if err := r.stopContainer(ctx, k.Container, criconfig.GracePeriod(in.Pod)); err != nil {
			return err
		}
	}
	for _, c := range do.Remove {
		if err := r.removeContainer(ctx, in.Pod.Namespace, in.Pod.Name, in.Pod.UID, c); err != nil {
			return err
		}
	}
	if do.CreateSandbox {
		id, err := r.createSandbox(ctx, in.Pod, do.SandboxAttempt)
		if err != nil {
			for i := range in.Pod.Spec.Containers {
				res.Waiting[in.Pod.Spec.Containers[i].Name] = Waiting{"ContainerCreating", err.Error()}
			}
			return fmt.Errorf("%s: %w", CreatePodSandboxError, err)
		}
		do.SandboxID = id
	}
	var errs []error
	for _, s := range do.Start {
		if err := r.startContainer(ctx, in, do, s, res); err != nil {
			errs = append(errs, fmt.Errorf("container %s: %w", s.Container.Name, err))
		}
	}
	return errors.Join(append(errs, r.prune(ctx, in))...)
}

func (r *Runtime) createSandbox(ctx context.Context, pod *v1.Pod, attempt uint32) (string, error) {
	config := criconfig.SandboxConfig(pod, attempt, r.cfg.Agent, r.cfg.LogsDir)
	if err := os.MkdirAll(config.GetLogDirectory(), 0o755); err != nil {
		return "", fmt.Errorf("make the pod's log directory: %w", err)
	}
	id, err := r.cfg.Runtime.RunPodSandbox(ctx, config, "")
	if err != nil {
		return "", fmt.Errorf("run sandbox: %w", err)
	}
	r.log.Info("sandbox runs", "pod", podName(pod), "uid", pod.UID, "sandbox", id, "attempt", attempt)
	return id, nil
}

// startContainer makes and starts one container, unless it has to wait. What it waits for, or what failed, goes into res.
func (r *Runtime) startContainer(ctx context.Context, in SyncInput, do actions.Actions, s actions.Start, res *SyncResult) error {
	fail := func(reason string, err error) error {
		res.Waiting[s.Container.Name] = Waiting{reason, err.Error()}
		return fmt.Errorf("%s: %w", reason, err)
	}
	if pause := r.restartPause(in.Pod, s); pause > 0 {
		message := fmt.Sprintf("back-off %v restarting failed container=%s pod=%s(%s)",
			r.restarts.Get(restartKey(in.Pod, s)), s.Container.Name, in.Pod.Name+"_"+in.Pod.Namespace, in.Pod.UID)
		res.Waiting[s.Container.Name] = Waiting{CrashLoopBackOff, message}
		res.retry(pause)
		return nil
	}
	image, wait, err := r.ensureImage(ctx, in.Pod, s.Container)
	if wait != nil {
		res.Waiting[s.Container.Name] = wait.Waiting
		res.retry(wait.pause)
		return err
	}
	mounts, err := in.Mounts(s.Container)
	if err != nil {
		return fail(CreateContainerConfigError, err)
	}
	config, err := criconfig.ContainerConfig(criconfig.ContainerInput{
		Pod: in.Pod, Container: s.Container, Attempt: s.Attempt, ImageRef: image.GetId(), ImageUser: criconfig.ImageUserOf(image),
		Mounts: mounts, Agent: r.cfg.Agent, MemoryCapacity: r.cfg.MemoryCapacity,
	})
	if err != nil {
		return fail(CreateContainerConfigError, err)
	}
	sandbox := criconfig.SandboxConfig(in.Pod, do.SandboxAttempt, r.cfg.Agent, r.cfg.LogsDir)
	if err := os.MkdirAll(filepath.Join(sandbox.GetLogDirectory(), s.Container.Name), 0o755); err != nil {
		return fail(CreateContainerError, fmt.Errorf("make the container's log directory: %w", err))
	}
	// A runtime takes a start that is cut short for a failed one, and the container for dead. These two calls don't take long,
	// so they are finished also while the pod is being removed or this agent ends.
	ctx = context.WithoutCancel(ctx)
	id, err := r.cfg.Runtime.CreateContainer(ctx, do.SandboxID, config, sandbox)
	if err != nil {
		return fail(CreateContainerError, err)
	}
	// Linked first: if this agent is killed in between, nobody comes back for the link of a container that runs.
	linked := r.linkLog(in.Pod, s, id)
	if err := r.cfg.Runtime.StartContainer(ctx, id); err != nil {
		r.mu.Lock()
		r.failedStarts[id] = true
		r.mu.Unlock()
		return fail(RunContainerError, err)
	}
	r.log.Info("container runs", "pod", podName(in.Pod), "uid", in.Pod.UID, "container", s.Container.Name, "id", id, "attempt", s.Attempt)
	return linked
}

// restartPause is how long the container has to wait before it is started again: by the kubelet's rules it starts at once the
// first time, then after a pause since its last end that doubles with each restart.
func (r *Runtime) restartPause(pod *v1.Pod, s actions.Start) time.Duration {
	if s.Last == nil || s.Last.State != observed.Exited {
		return 0
	}
	key, now := restartKey(pod, s), r.cfg.Clock.Now()
	if r.restarts.IsInBackOffSince(key, s.Last.Finished) {
		return max(s.Last.Finished.Add(r.restarts.Get(key)).Sub(now), time.Millisecond)
	}
	r.restarts.Next(key, s.Last.Finished)
	return 0
}

func restartKey(pod *v1.Pod, s actions.Start) string {
	return string(pod.UID) + "/" + s.Container.Name + "/" + criconfig.ContainerHash(s.Container)
}

func (res *SyncResult) retry(after time.Duration) {
	if after > 0 && (res.RetryAfter == 0 || after < res.RetryAfter) {
		res.RetryAfter = after
	}
}

func podName(pod *v1.Pod) string { return pod.Namespace + "/" + pod.Name }
