package runtime

import (
	"slices"
	"testing"

	v1 "k8s.io/api/core/v1"

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
