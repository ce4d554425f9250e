package runtime

import (
	"context"
	"fmt"

	v1 "k8s.io/api/core/v1"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/podstream/podstream/internal/execsvc/cri/image"
	"github.com/podstream/podstream/internal/execsvc/decide/actions"
	"github.com/podstream/podstream/internal/execsvc/pod/events"
	"github.com/podstream/podstream/internal/execsvc/pod/observed"
)

// asked are the images that one round needs. They are requested in the order of the containers, and then those that the
// pod needs later, concurrently with the round's first actions.
type asked struct {
	answers map[string]*answer
	done    chan struct{}
}

// answer is the result for one container's image. It may be read once ready is closed.
type answer struct {
	ready chan struct{}
	image *runtimeapi.Image
	// volumes has the runtime's names of the images that the container has as volumes, by reference.
	volumes map[string]string
	// wait is why the image isn't there; err may then be the failure.
	wait *image.Wait
	err  error
}

// ask requests the images of the containers. The caller must wait for the result in the end.
func (s *round) ask(ctx context.Context, starts []actions.Start) *asked {
	a := &asked{answers: map[string]*answer{}, done: make(chan struct{})}
	var containers []*v1.Container
	for _, start := range starts {
		if a.answers[start.Container.Name] == nil {
			a.answers[start.Container.Name] = &answer{ready: make(chan struct{})}
			containers = append(containers, start.Container)
		}
	}
	var sandbox *runtimeapi.PodSandboxConfig
	var err error
	if len(containers) > 0 {
		sandbox, _, err = s.sandboxConfig()
	}
	go func() {
		defer close(a.done)
		for _, c := range containers {
			got := a.answers[c.Name]
			if err != nil {
				// As with the kubelet, no image is pulled for a sandbox that can't be configured: the runtime needs its
				// config for a pull too.
				got.wait, got.err = &image.Wait{Reason: CreateContainerConfigError, Message: err.Error()}, err
			} else {
				s.ensure(ctx, c, sandbox, got)
			}
			close(got.ready)
		}
		if err == nil && len(containers) > 0 {
			s.prefetch(ctx, containers, sandbox)
		}
	}()
	return a
}

// ensure requests the images that the container has as volumes, and then its own, unless it must wait for the others. As
// with the kubelet, they are pulled one after the other.
func (s *round) ensure(ctx context.Context, c *v1.Container, sandbox *runtimeapi.PodSandboxConfig, got *answer) {
	got.volumes = map[string]string{}
	mounted := mountedBy(c)
	for _, v := range imageVolumes(s.Pod) {
		if !mounted[v.Name] {
			continue
		}
		wanted := &v1.Container{Name: c.Name, Image: v.Image.Reference, ImagePullPolicy: v.Image.PullPolicy}
		found, wait, err := s.ensureOne(ctx, wanted, sandbox)
		switch {
		case wait == nil:
			got.volumes[wanted.Image] = found.GetId()
		case got.wait == nil || !wait.Pulling:
			// As with the kubelet, a failure is reported, not a pull, and the last one of several.
			got.wait, got.err = withEarlier(wait, got.wait), err
		}
		if wait != nil && (wait.Pulling || ctx.Err() != nil) {
			return
		}
	}
	if got.wait == nil {
		got.image, got.wait, got.err = s.ensureOne(ctx, c, sandbox)
	}
}

// withEarlier returns the Wait with the earlier time to try again of the two.
func withEarlier(wait, other *image.Wait) *image.Wait {
	if other == nil || other.RetryAfter == 0 || wait.RetryAfter > 0 && wait.RetryAfter <= other.RetryAfter {
		return wait
	}
	earlier := *wait
	earlier.RetryAfter = other.RetryAfter
	return &earlier
}

// ensureOne requests one image, unless the round was cancelled. With an error there is always a Wait.
func (s *round) ensureOne(ctx context.Context, c *v1.Container, sandbox *runtimeapi.PodSandboxConfig) (*runtimeapi.Image, *image.Wait, error) {
	if err := ctx.Err(); err != nil {
		return nil, &image.Wait{Reason: image.ImageInspectError, Message: err.Error()}, err
	}
	found, wait, err := s.cfg.Images.Ensure(ctx, s.Pod, c, sandbox)
	if err != nil && wait == nil {
		wait = &image.Wait{Reason: image.ImageInspectError, Message: err.Error()}
	}
	return found, wait, err
}

// prefetch requests the other images that the pod has as volumes. As with the kubelet, they are pulled when the pod
// starts, also for a later container or none. But only a container that mounts an image waits for it, and reports its
// failure.
func (s *round) prefetch(ctx context.Context, starting []*v1.Container, sandbox *runtimeapi.PodSandboxConfig) {
	mounted, requested := mountedBy(starting...), map[string]bool{}
	for _, v := range imageVolumes(s.Pod) {
		if v.Image.PullPolicy == v1.PullNever || mounted[v.Name] || requested[v.Image.Reference] {
			continue
		}
		requested[v.Image.Reference] = true
		// With the policy Always it is pulled again for each container that mounts it.
		_, _, _ = s.ensureOne(ctx, &v1.Container{Image: v.Image.Reference, ImagePullPolicy: v1.PullIfNotPresent}, sandbox)
	}
}

// imageVolumes returns the pod's volumes that are images.
func imageVolumes(pod *v1.Pod) []*v1.Volume {
	var volumes []*v1.Volume
	for i := range pod.Spec.Volumes {
		if v := &pod.Spec.Volumes[i]; v.Image != nil {
			volumes = append(volumes, v)
		}
	}
	return volumes
}

// mountedBy has the names of the volumes that the containers mount.
func mountedBy(containers ...*v1.Container) map[string]bool {
	mounted := map[string]bool{}
	for _, c := range containers {
		for _, m := range c.VolumeMounts {
			mounted[m.Name] = true
		}
	}
	return mounted
}

func (a *asked) wait() { <-a.done }

// of returns the answer for a container, or nil if its image wasn't requested.
func (a *asked) of(container string) *answer {
	got := a.answers[container]
	if got != nil {
		<-got.ready
	}
	return got
}

// waitForImage records that a container waits for its image. It returns the failure, if there is one.
func (s *round) waitForImage(ctx context.Context, container string, got *answer) error {
	if got.err != nil && ctx.Err() != nil {
		// The pod or this agent is being stopped: nothing failed.
		return fmt.Errorf("image: %w", ctx.Err())
	}
	s.res.Waiting[container] = observed.Waiting{Reason: got.wait.Reason, Message: got.wait.Message}
	s.res.retry(got.wait.RetryAfter)
	if !got.wait.Pulling {
		s.cfg.Events.Record(s.Pod, container, events.Warning, events.FailedToStart, "Error: "+got.wait.Reason)
	}
	if got.err != nil {
		return fmt.Errorf("%s: %w", got.wait.Reason, got.err)
	}
	return nil
}
