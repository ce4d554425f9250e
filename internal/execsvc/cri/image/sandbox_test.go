package image

import (
	"context"
	"errors"
	"testing"

	internalapi "k8s.io/cri-api/pkg/apis"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// recordingRegistry records the requests for pulls.
type recordingRegistry struct {
	internalapi.ImageManagerService
	images    chan *runtimeapi.ImageSpec
	sandboxes chan *runtimeapi.PodSandboxConfig
}

func (r *recordingRegistry) PullImage(
	_ context.Context, image *runtimeapi.ImageSpec, _ *runtimeapi.AuthConfig, sandbox *runtimeapi.PodSandboxConfig,
) (string, error) {
	r.images <- image
	r.sandboxes <- sandbox
	return "", errors.New("no such image")
}

func (r *recordingRegistry) ImageStatus(context.Context, *runtimeapi.ImageSpec, bool) (*runtimeapi.ImageStatusResponse, error) {
	return &runtimeapi.ImageStatusResponse{}, nil
}

// TestPullHasThePod: the runtime gets the pod's annotations and its sandbox with each pull.
func TestPullHasThePod(t *testing.T) {
	r := &recordingRegistry{images: make(chan *runtimeapi.ImageSpec, 1), sandboxes: make(chan *runtimeapi.PodSandboxConfig, 1)}
	p := New(Config{Images: r})
	defer p.Close()
	asking := pod("1", "Always sim/app")
	asking.Annotations = map[string]string{"io.example/policy": "strict"}
	sandbox := &runtimeapi.PodSandboxConfig{Metadata: &runtimeapi.PodSandboxMetadata{Name: "1"}}
	if _, wait, err := p.Ensure(t.Context(), asking, &asking.Spec.Containers[0], sandbox); wait == nil || !wait.Pulling || err != nil {
		t.Fatalf("%+v, %v", wait, err)
	}
	if got := receive(t, r.images); got.GetImage() != "sim/app:latest" || got.GetAnnotations()["io.example/policy"] != "strict" {
		t.Errorf("the runtime is asked for %v", got)
	}
	if got := receive(t, r.sandboxes); got != sandbox {
		t.Errorf("the runtime is told of %v; want %v", got, sandbox)
	}
}
