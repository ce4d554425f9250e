package runtime

import (
	"context"
	"errors"
	"fmt"
	"slices"

	v1 "k8s.io/api/core/v1"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/podstream/podstream/internal/execsvc/cri/image"
	"github.com/podstream/podstream/internal/execsvc/decide/actions"
	"github.com/podstream/podstream/internal/execsvc/pod/events"
	"github.com/podstream/podstream/internal/execsvc/pod/observed"
)

// asked are the images that one round needs. They are requested in the order of the containers, concurrently with the
// round's first actions.
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
	}()
	return a
}

// ensure requests the container's own image, and then the images that it has as volumes.
func (s *round) ensure(ctx context.Context, c *v1.Container, sandbox *runtimeapi.PodSandboxConfig, got *answer) {
	for _, wanted := range append([]*v1.Container{c}, imageVolumes(s.Pod, c)...) {
		var found *runtimeapi.Image
		if found, got.wait, got.err = s.cfg.Images.Ensure(ctx, s.Pod, wanted, sandbox); got.wait != nil || got.err != nil {
			break
		}
		if wanted == c {
			got.image, got.volumes = found, map[string]string{}
		} else {
			got.volumes[wanted.Image] = found.GetId()
		}
	}
	if got.err != nil && got.wait == nil {
		got.wait = &image.Wait{Reason: image.ImageInspectError, Message: got.err.Error()}
	}
}

// imageVolumes returns a copy of the container for each image that it has as a volume, with that image as its own.
func imageVolumes(pod *v1.Pod, c *v1.Container) []*v1.Container {
	var images []*v1.Container
	for i := range pod.Spec.Volumes {
		v := &pod.Spec.Volumes[i]
		if v.Image != nil && slices.ContainsFunc(c.VolumeMounts, func(m v1.VolumeMount) bool { return m.Name == v.Name }) {
			images = append(images, &v1.Container{Name: c.Name, Image: v.Image.Reference, ImagePullPolicy: v.Image.PullPolicy})
		}
	}
	return images
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

// hold removes replacements that can't start yet from the actions: a running container goes on until its successor can
// start.
func (s *round) hold(asked *asked) error {
	var errs []error
	s.do.Kill = slices.DeleteFunc(s.do.Kill, func(k actions.Kill) bool {
		if !k.Hold || !k.Restart {
			return false
		}
		got := asked.of(k.Container.Name)
		why, lacks := s.Lacks[k.Container.Name]
		if !lacks && (got == nil || got.wait == nil) {
			return false
		}
		s.do.Start = slices.DeleteFunc(s.do.Start, func(start actions.Start) bool { return start.Container.Name == k.Container.Name })
		if lacks {
			errs = append(errs, fmt.Errorf("replace container %s: %s: %s; its predecessor goes on", k.Container.Name, CreateContainerConfigError, why))
			return true
		}
		if err := s.waitForImage(k.Container.Name, got); err != nil {
			errs = append(errs, fmt.Errorf("replace container %s: %w; its predecessor goes on", k.Container.Name, err))
		}
		return true
	})
	return errors.Join(errs...)
}

// waitForImage records that a container waits for its image. It returns the failure, if there is one.
func (s *round) waitForImage(container string, got *answer) error {
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
