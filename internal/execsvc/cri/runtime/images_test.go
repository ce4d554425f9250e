package runtime

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	v1 "k8s.io/api/core/v1"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
	"k8s.io/utils/ptr"

	"github.com/podstream/podstream/internal/execsvc/cri/image"
	"github.com/podstream/podstream/internal/execsvc/pod/criconfig"
	"github.com/podstream/podstream/internal/execsvc/pod/observed"
)

var pulling = &image.Wait{Reason: image.ContainerCreating, Message: "pulling", Pulling: true}

// All images are requested, and the sandbox is created, whatever they wait for. Containers start in order.
func TestImageIsBeingPulled(t *testing.T) {
	s := newSim(t)
	pod := simPod(sample("a"), sample("b"), sample("c"))
	pod.Spec.EphemeralContainers = []v1.EphemeralContainer{{EphemeralContainerCommon: v1.EphemeralContainerCommon{
		Name: "e", Image: "localhost/sample:1",
	}}}
	s.images.answer("b", pulling, nil)
	res := s.sync(pod)
	want := map[string]observed.Waiting{
		"b": {Reason: image.ContainerCreating, Message: "pulling"},
		"c": {Reason: ContainerCreating, Message: "waiting for the image of container b"},
	}
	if diff := cmp.Diff(want, res.Waiting); diff != "" || res.Err != nil || res.RetryAfter != 0 {
		t.Errorf("error %v, retry after %v, waiting (-want +got):\n%s", res.Err, res.RetryAfter, diff)
	}
	s.wantContainer(pod, "a", observed.Running, 0)
	if diff := cmp.Diff([]string{"a", "b", "c"}, s.images.asked); diff != "" {
		t.Errorf("asked for images of (-want +got):\n%s", diff)
	}
	// An ephemeral container neither waits for others nor delays them.
	s.sync(pod)
	s.wantContainer(pod, "e", observed.Running, 0)
	s.images.answer("b", nil, nil)
	s.mustSync(pod)
	s.wantContainer(pod, "c", observed.Running, 0)
}

func TestImageOfEphemeralContainer(t *testing.T) {
	s := newSim(t)
	pod := simPod(sample("a"))
	s.mustSync(pod)
	pod.Spec.EphemeralContainers = []v1.EphemeralContainer{{EphemeralContainerCommon: v1.EphemeralContainerCommon{
		Name: "e", Image: "localhost/sample:1",
	}}}
	s.images.answer("e", pulling, nil)
	s.exit(pod, "a", 1)
	s.wantWaiting(pod, "e", image.ContainerCreating, 0, false)
	s.wantContainer(pod, "a", observed.Running, 1)
}

// A container whose image fails doesn't delay the others.
func TestImageFails(t *testing.T) {
	s := newSim(t)
	pod := simPod(sample("a"), sample("b"))
	s.images.answer("a", &image.Wait{Reason: image.ErrImagePull, Message: "no such image", RetryAfter: 7 * time.Second}, errors.New("no such image"))
	s.wantWaiting(pod, "a", image.ErrImagePull, 7*time.Second, true)
	s.wantContainer(pod, "b", observed.Running, 0)
	s.images.answer("a", &image.Wait{Reason: image.ImagePullBackOff, Message: "Back-off", RetryAfter: 5 * time.Second}, nil)
	s.wantWaiting(pod, "a", image.ImagePullBackOff, 5*time.Second, false)
	if got := s.events(); !slices.Contains(got, "Failed a: Error: ImagePullBackOff") {
		t.Errorf("events %q; want it to say that a waits", got)
	}
}

// A running container goes on until its successor's image is there, and the image is requested once a round.
func TestReplacementWaitsForItsImage(t *testing.T) {
	s := newSim(t)
	pod := simPod(sample("a"))
	s.mustSync(pod)
	changed := pod.DeepCopy()
	changed.Spec.Containers[0].Image = "localhost/sample:2"
	for _, tc := range []struct {
		wait *image.Wait
		err  error
	}{{wait: pulling}, {&image.Wait{Reason: image.ErrImagePull}, errors.New("down")}} {
		s.images.answer("a", tc.wait, tc.err)
		if calls := s.callsDuring(func() { s.wantWaiting(changed, "a", tc.wait.Reason, 0, tc.err != nil) }); len(calls) > 0 {
			t.Errorf("calls %q; want none", calls)
		}
		s.wantContainer(changed, "a", observed.Running, 0)
	}
	s.images.answer("a", nil, nil)
	s.images.asked = nil
	s.mustSync(changed)
	s.wantContainer(changed, "a", observed.Running, 1)
	if len(s.images.asked) != 1 {
		t.Errorf("asked for images of %q; want once", s.images.asked)
	}
}

// The puller gets the config of the pod's sandbox, and the name of each container that is created from an image.
func TestImagesReceiveThePod(t *testing.T) {
	s := newSim(t)
	pod := simPod(sample("a"), sample("b"))
	s.mustSync(pod)
	if diff := cmp.Diff([]string{"web", "web"}, s.images.sandboxes); diff != "" {
		t.Errorf("pods of the sandboxes (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]string{"a", "b"}, s.images.used); diff != "" {
		t.Errorf("containers that were made (-want +got):\n%s", diff)
	}
}

// recordingImages reports when it is asked.
type recordingImages struct {
	ImageService
	asked chan struct{}
}

func (i *recordingImages) Ensure(
	ctx context.Context, pod *v1.Pod, c *v1.Container, sandbox *runtimeapi.PodSandboxConfig,
) (*runtimeapi.Image, *image.Wait, error) {
	close(i.asked)
	return i.ImageService.Ensure(ctx, pod, c, sandbox)
}

// The sandbox and the images don't wait for each other.
func TestImagesBesideTheSandbox(t *testing.T) {
	s := newSim(t)
	images := &recordingImages{s.images, make(chan struct{})}
	s.with(func(c *Config) { c.Images = images })
	s.setFault(func(method string) error {
		if method == "RunPodSandbox" {
			<-images.asked
			return errDown
		}
		return nil
	})
	res := s.sync(simPod(sample("a")))
	if got := res.Waiting["a"]; got.Reason != ContainerCreating || !strings.Contains(got.Message, "went away") || res.Err == nil {
		t.Errorf("a waits for %+v, error %v", got, res.Err)
	}
	if got := s.events(); len(got) != 1 || !strings.HasPrefix(got[0], "FailedCreatePodSandBox : Failed to create pod sandbox: ") {
		t.Errorf("events %q; want FailedCreatePodSandBox", got)
	}
}

// No image is requested for a sandbox that can't be configured.
func TestImagesWithoutASandboxConfig(t *testing.T) {
	s := newSim(t)
	pod := simPod(sample("a"))
	pod.Spec.Hostname, pod.Spec.Subdomain, pod.Spec.SetHostnameAsFQDN = strings.Repeat("a", 63), "sub", ptr.To(true)
	if res := s.sync(pod); res.Err == nil || res.Waiting["a"].Reason != ContainerCreating || len(s.images.asked) > 0 {
		t.Errorf("error %v, waiting %v, asked for images of %q; want an error, and no image", res.Err, res.Waiting, s.images.asked)
	}
}

// No image is requested while its container is in backoff: the policy Always would pull it.
func TestImagesInBackoff(t *testing.T) {
	s := newSim(t)
	pod := simPod(sample("a"))
	s.mustSync(pod)
	s.exit(pod, "a", 1)
	s.mustSync(pod)
	s.exit(pod, "a", 1)
	s.images.asked = nil
	s.wantWaiting(pod, "a", CrashLoopBackOff, 10*time.Second, false)
	if len(s.images.asked) > 0 {
		t.Errorf("asked for images of %q; want none", s.images.asked)
	}
	// Nor does a restart count that doesn't come to pass.
	s.clock.Step(10 * time.Second)
	s.images.answer("a", pulling, nil)
	s.wantWaiting(pod, "a", image.ContainerCreating, 0, false)
	s.images.answer("a", nil, nil)
	s.mustSync(pod)
	s.wantContainer(pod, "a", observed.Running, 2)
}

// imageVolume is a volume of an image, with a policy that isn't the default.
func imageVolume(name string, policy v1.PullPolicy) v1.Volume {
	return v1.Volume{Name: name, VolumeSource: v1.VolumeSource{Image: &v1.ImageVolumeSource{Reference: "localhost/" + name + ":1", PullPolicy: policy}}}
}

// withImage mounts the volume in the container.
func withImage(c v1.Container, volumes ...string) v1.Container {
	for _, name := range volumes {
		c.VolumeMounts = append(c.VolumeMounts, v1.VolumeMount{Name: name, MountPath: "/" + name})
	}
	return c
}

// An image volume is requested like the container's own image, and the mount has the runtime's name of it.
func TestImageVolume(t *testing.T) {
	s := newSim(t)
	pod := simPod(withImage(sample("a"), "data"))
	pod.Spec.Volumes = []v1.Volume{imageVolume("data", v1.PullAlways)}
	setup := plainSetup{mounts: []criconfig.Mount{{ContainerPath: "/data", ReadOnly: true, Image: &criconfig.ImageMount{Given: "localhost/data:1", SubPath: "x"}}}}
	in := s.input(pod)
	in.Setup = setup
	if res := s.SyncPod(t.Context(), in); res.Err != nil {
		t.Fatal(res.Err)
	}
	if want := []string{"a Always localhost/data:1", "a IfNotPresent localhost/sample:1"}; !slices.Equal(s.images.wanted, want) {
		t.Errorf("asked for %q; want %q", s.images.wanted, want)
	}
	image, err := s.images.service.ImageStatus(t.Context(), &runtimeapi.ImageSpec{Image: "localhost/data:1"}, false)
	if err != nil {
		t.Fatal(err)
	}
	if got := setup.mounts[0].Image; got.Ref != image.GetImage().GetId() || got.SubPath != "x" {
		t.Errorf("the runtime mounts %+v; want the image that it calls %s", got, image.GetImage().GetId())
	}
}

// A container waits for the images that it has as volumes, and its own is then not requested.
func TestImageVolumeIsBeingPulled(t *testing.T) {
	s := newSim(t)
	pod := simPod(withImage(sample("a"), "data"))
	pod.Spec.Volumes = []v1.Volume{imageVolume("data", v1.PullIfNotPresent)}
	s.images.answer("a", pulling, nil)
	s.wantWaiting(pod, "a", image.ContainerCreating, 0, false)
	if want := []string{"a IfNotPresent localhost/data:1"}; !slices.Equal(s.images.wanted, want) {
		t.Errorf("asked for %q; want %q", s.images.wanted, want)
	}
}

// As with the kubelet, the images of all volumes are requested when the first container starts. Containers that don't
// mount one neither wait for it nor fail.
func TestImageVolumesOfLaterContainers(t *testing.T) {
	s := newSim(t)
	pod := simPod(withImage(sample("a"), "mine"), sample("b"))
	pod.Spec.InitContainers = []v1.Container{sample("init")}
	pod.Spec.Volumes = []v1.Volume{imageVolume("mine", v1.PullAlways), imageVolume("unused", ""), imageVolume("never", v1.PullNever)}
	s.images.answer("", &image.Wait{Reason: image.ErrImagePull, Message: "no such image", RetryAfter: time.Second}, errors.New("no such image"))
	res := s.sync(pod)
	if res.Err != nil || len(res.Waiting) > 0 || res.RetryAfter != 0 {
		t.Errorf("error %v, waiting %v, retry after %v; want none", res.Err, res.Waiting, res.RetryAfter)
	}
	want := []string{"init IfNotPresent localhost/sample:1", " IfNotPresent localhost/mine:1", " IfNotPresent localhost/unused:1"}
	if !slices.Equal(s.images.wanted, want) {
		t.Errorf("asked for %q; want %q", s.images.wanted, want)
	}
	s.images.wanted = nil
	s.exit(pod, "init", 0)
	s.mustSync(pod)
	s.wantContainer(pod, "a", observed.Running, 0)
	want = []string{"a Always localhost/mine:1", "a IfNotPresent localhost/sample:1", "b IfNotPresent localhost/sample:1", " IfNotPresent localhost/unused:1"}
	if !slices.Equal(s.images.wanted, want) {
		t.Errorf("asked for %q; want %q", s.images.wanted, want)
	}
	s.images.wanted = nil
	if s.mustSync(pod); len(s.images.wanted) > 0 {
		t.Errorf("asked for %q; want none, as no container starts", s.images.wanted)
	}
}

// Of several images the last failure is reported, also while others are pulled.
func TestImageVolumesFail(t *testing.T) {
	s := newSim(t)
	pod := simPod(withImage(sample("a"), "one", "two", "three"))
	pod.Spec.Volumes = []v1.Volume{imageVolume("one", ""), imageVolume("two", ""), imageVolume("three", "")}
	s.images.answer("localhost/one:1", &image.Wait{Reason: image.ErrImageNeverPull}, errors.New("one"))
	s.images.answer("localhost/two:1", &image.Wait{Reason: image.ErrImagePull}, errors.New("two"))
	s.images.answer("localhost/three:1", pulling, nil)
	s.wantWaiting(pod, "a", image.ErrImagePull, 0, true)
	if len(s.images.wanted) != 3 {
		t.Errorf("asked for %q; want only the volumes' images", s.images.wanted)
	}
}
