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

// An image volume is requested like the container's own image, and the mount has the runtime's name of it.
func TestImageVolume(t *testing.T) {
	s := newSim(t)
	a := sample("a")
	a.VolumeMounts = []v1.VolumeMount{{Name: "data", MountPath: "/data"}}
	pod := simPod(a)
	pod.Spec.Volumes = []v1.Volume{
		{Name: "data", VolumeSource: v1.VolumeSource{Image: &v1.ImageVolumeSource{Reference: "localhost/data:1", PullPolicy: v1.PullAlways}}},
		{Name: "not-mounted", VolumeSource: v1.VolumeSource{Image: &v1.ImageVolumeSource{Reference: "localhost/other:1"}}},
	}
	setup := plainSetup{mounts: []criconfig.Mount{{ContainerPath: "/data", ReadOnly: true, Image: &criconfig.ImageMount{Given: "localhost/data:1", SubPath: "x"}}}}
	in := s.input(pod)
	in.Setup = setup
	if res := s.SyncPod(t.Context(), in); res.Err != nil {
		t.Fatal(res.Err)
	}
	if !slices.Equal(s.images.asked, []string{"a", "a"}) {
		t.Errorf("asked for images of %q; want the container's own, and the one that it mounts", s.images.asked)
	}
	image, err := s.images.service.ImageStatus(t.Context(), &runtimeapi.ImageSpec{Image: "localhost/data:1"}, false)
	if err != nil {
		t.Fatal(err)
	}
	if got := setup.mounts[0].Image; got.Ref != image.GetImage().GetId() || got.SubPath != "x" {
		t.Errorf("the runtime mounts %+v; want the image that it calls %s", got, image.GetImage().GetId())
	}
}

// A container waits for the images that it has as volumes.
func TestImageVolumeIsBeingPulled(t *testing.T) {
	pod := simPod(sample("a"))
	pod.Spec.Containers[0].VolumeMounts = []v1.VolumeMount{{Name: "data", MountPath: "/data"}}
	pod.Spec.Volumes = []v1.Volume{{Name: "data", VolumeSource: v1.VolumeSource{Image: &v1.ImageVolumeSource{Reference: "localhost/data:1"}}}}
	if got := imageVolumes(pod, &pod.Spec.Containers[0]); len(got) != 1 || got[0].Image != "localhost/data:1" || got[0].Name != "a" {
		t.Fatalf("the image volumes are %+v", got)
	}
	s := newSim(t)
	s.images.answer("a", pulling, nil)
	s.wantWaiting(pod, "a", image.ContainerCreating, 0, false)
}
