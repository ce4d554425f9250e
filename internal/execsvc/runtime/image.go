package runtime

import (
	"context"
	"errors"
	"fmt"
	"time"

	v1 "k8s.io/api/core/v1"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// imageWait is why a container's image isn't there.
type imageWait struct {
	Waiting
	// pause is how long the backoff still runs; zero if it isn't that.
	pause time.Duration
}

// ensureImage sees to it that the container's image is there, by its pull policy. If it isn't, wait says why; err is nil then
// only if that is a backoff.
func (r *Runtime) ensureImage(ctx context.Context, pod *v1.Pod, c *v1.Container) (image *runtimeapi.Image, wait *imageWait, err error) {
	spec := &runtimeapi.ImageSpec{Image: c.Image, UserSpecifiedImage: c.Image}
	fail := func(reason string, err error) (*runtimeapi.Image, *imageWait, error) {
		return nil, &imageWait{Waiting: Waiting{reason, err.Error()}}, fmt.Errorf("%s: %w", reason, err)
	}
	present, err := r.presentImage(ctx, spec)
	if err != nil {
		return fail(ImageInspectError, err)
	}
	switch {
	case c.ImagePullPolicy == v1.PullNever && present == nil:
		return fail(ErrImageNeverPull, fmt.Errorf("container image %q is not present with pull policy of Never", c.Image))
	case c.ImagePullPolicy != v1.PullAlways && present != nil:
		return present, nil, nil
	}
	key := string(pod.UID) + "/" + c.Image
	if pause := r.pullPause(key); pause > 0 {
		message := fmt.Sprintf("Back-off pulling image %q", c.Image)
		return nil, &imageWait{Waiting: Waiting{ImagePullBackOff, message}, pause: pause}, nil
	}
	r.log.Info("pulling image", "pod", podName(pod), "container", c.Name, "image", c.Image)
	started := r.cfg.Clock.Now()
	if _, err := r.cfg.Images.PullImage(ctx, spec, nil, nil); err != nil {
		_, wait, err := fail(ErrImagePull, err)
		if ctx.Err() == nil {
			// A pull that was broken off is no failure of the image's.
			wait.pause = r.failedPull(key)
		}
		return nil, wait, err
	}
	r.pulls.DeleteEntry(key)
	r.log.Info("pulled image", "pod", podName(pod), "container", c.Name, "image", c.Image, "took", r.cfg.Clock.Since(started))
	present, err = r.presentImage(ctx, spec)
	if err == nil && present == nil {
		err = errors.New("the runtime pulled the image but doesn't have it")
	}
	if err != nil {
		return fail(ImageInspectError, err)
	}
	return present, nil, nil
}

// failedPull notes that a pull failed, and returns the pause until the next.
func (r *Runtime) failedPull(key string) time.Duration {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.pullFailed[key] = r.cfg.Clock.Now()
	r.pulls.Next(key, r.pullFailed[key])
	return r.pulls.Get(key)
}

// pullPause is how long the image isn't to be pulled again; zero if it may be now.
func (r *Runtime) pullPause(key string) time.Duration {
	now := r.cfg.Clock.Now()
	if !r.pulls.IsInBackOffSinceUpdate(key, now) {
		return 0
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	return max(r.pullFailed[key].Add(r.pulls.Get(key)).Sub(now), time.Millisecond)
}

// presentImage is the image as the runtime has it, or nil if it doesn't.
func (r *Runtime) presentImage(ctx context.Context, spec *runtimeapi.ImageSpec) (*runtimeapi.Image, error) {
	resp, err := r.cfg.Images.ImageStatus(ctx, spec, false)
	if err != nil {
		return nil, fmt.Errorf("look for image %q: %w", spec.GetImage(), err)
	}
	return resp.GetImage(), nil
}
