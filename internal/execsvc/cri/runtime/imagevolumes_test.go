package runtime

import (
	"context"
	"errors"
	"slices"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/podstream/podstream/internal/execsvc/cri/image"
)

// As with the kubelet, the images that a container has as volumes are pulled one after the other.
func TestImageVolumesOneByOne(t *testing.T) {
	s := newSim(t)
	pod := simPod(withImage(sample("a"), "one", "two", "three"))
	pod.Spec.Volumes = []v1.Volume{imageVolume("one", ""), imageVolume("two", ""), imageVolume("three", "")}
	s.images.answer("localhost/two:1", pulling, nil)
	s.wantWaiting(pod, "a", image.ContainerCreating, 0, false)
	if want := []string{"a  localhost/one:1", "a  localhost/two:1"}; !slices.Equal(s.images.wanted, want) {
		t.Errorf("asked for %q; want %q", s.images.wanted, want)
	}
}

// Of several failed images the one that can be tried again first determines when.
func TestImageVolumesRetry(t *testing.T) {
	s := newSim(t)
	pod := simPod(withImage(sample("a"), "one", "two", "three"))
	pod.Spec.Volumes = []v1.Volume{imageVolume("one", ""), imageVolume("two", ""), imageVolume("three", "")}
	s.images.answer("localhost/one:1", &image.Wait{Reason: image.ImagePullBackOff, RetryAfter: 20 * time.Second}, nil)
	s.images.answer("localhost/two:1", &image.Wait{Reason: image.ImagePullBackOff, RetryAfter: 5 * time.Second}, nil)
	s.images.answer("localhost/three:1", &image.Wait{Reason: image.ErrImageNeverPull}, errors.New("three"))
	s.wantWaiting(pod, "a", image.ErrImageNeverPull, 5*time.Second, true)
}

// Volumes of one image are one request.
func TestEqualImageVolumes(t *testing.T) {
	s := newSim(t)
	pod := simPod(sample("a"))
	pod.Spec.Volumes = []v1.Volume{imageVolume("one", ""), imageVolume("two", "")}
	pod.Spec.Volumes[1].Image.Reference = pod.Spec.Volumes[0].Image.Reference
	s.mustSync(pod)
	if want := []string{"a IfNotPresent localhost/sample:1", " IfNotPresent localhost/one:1"}; !slices.Equal(s.images.wanted, want) {
		t.Errorf("asked for %q; want %q", s.images.wanted, want)
	}
}

// laterImages blocks in the requests for images that no container waits for.
type laterImages struct {
	ImageService
	asked, proceed chan struct{}
}

func (i *laterImages) Ensure(
	ctx context.Context, pod *v1.Pod, c *v1.Container, sandbox *runtimeapi.PodSandboxConfig,
) (*runtimeapi.Image, *image.Wait, error) {
	if c.Name == "" {
		i.asked <- struct{}{}
		<-i.proceed
	}
	return i.ImageService.Ensure(ctx, pod, c, sandbox)
}

// The images that a pod needs later hold no start slot, and are no longer requested once the round is cancelled.
func TestImagesForLater(t *testing.T) {
	s := newSim(t)
	images := &laterImages{s.images, make(chan struct{}, 2), make(chan struct{})}
	s.with(func(c *Config) { c.Images = images })
	s.starts = &startLimiter{few: 1, limit: 1}
	started := make(chan struct{})
	s.setFault(func(method string) error {
		if method == "StartContainer" {
			close(started)
		}
		return nil
	})
	pod := simPod(sample("a"))
	pod.Spec.Volumes = []v1.Volume{imageVolume("one", ""), imageVolume("two", "")}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	ended := make(chan SyncResult)
	go func() { ended <- s.SyncPod(ctx, s.input(pod)) }()
	<-images.asked
	<-started
	if err := s.starts.acquire(t.Context()); err != nil {
		t.Fatal(err)
	}
	s.starts.mu.Lock()
	if s.starts.taken != 1 {
		t.Errorf("%d slots are taken; want only this test's", s.starts.taken)
	}
	s.starts.mu.Unlock()
	cancel()
	close(images.proceed)
	if res := <-ended; len(res.Waiting) > 0 {
		t.Errorf("waiting %v, error %v", res.Waiting, res.Err)
	}
	if len(images.asked) > 0 {
		t.Error("a second image was asked for after the end")
	}
}

// A round that is cancelled while it asks for images reports no failure of them.
func TestCancelledImages(t *testing.T) {
	s := newSim(t)
	ctx, cancel := context.WithCancel(t.Context())
	pod := simPod(withImage(sample("a"), "one", "two"), sample("b"))
	pod.Spec.Volumes = []v1.Volume{imageVolume("one", ""), imageVolume("two", "")}
	s.with(func(c *Config) { c.Images = cancelling{s.images, cancel} })
	if res := s.SyncPod(ctx, s.input(pod)); !errors.Is(res.Err, context.Canceled) || len(res.Waiting) > 0 {
		t.Errorf("error %v, waiting %v; want only that it was cancelled", res.Err, res.Waiting)
	}
	if got := s.events(); len(got) > 0 {
		t.Errorf("events %q; want none", got)
	}
	if len(s.images.wanted) != 1 {
		t.Errorf("asked for %q; want one", s.images.wanted)
	}
}

// So does one that was to replace a container.
func TestCancelledReplacement(t *testing.T) {
	s := newSim(t)
	pod := simPod(sample("a"))
	s.mustSync(pod)
	changed := pod.DeepCopy()
	changed.Spec.Containers[0].Image = "localhost/sample:2"
	ctx, cancel := context.WithCancel(t.Context())
	s.with(func(c *Config) { c.Images = cancelling{s.images, cancel} })
	s.images.answer("a", &image.Wait{Reason: image.ImageInspectError}, context.Canceled)
	if res := s.SyncPod(ctx, s.input(changed)); !errors.Is(res.Err, context.Canceled) || len(res.Waiting) > 0 {
		t.Errorf("error %v, waiting %v; want only that it was cancelled", res.Err, res.Waiting)
	}
	if got := s.events(); len(got) > 0 {
		t.Errorf("events %q; want none", got)
	}
}

// cancelling cancels the round in the first request.
type cancelling struct {
	ImageService
	cancel func()
}

func (i cancelling) Ensure(
	ctx context.Context, pod *v1.Pod, c *v1.Container, sandbox *runtimeapi.PodSandboxConfig,
) (*runtimeapi.Image, *image.Wait, error) {
	i.cancel()
	return i.ImageService.Ensure(ctx, pod, c, sandbox)
}
