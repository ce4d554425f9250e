//go:build failpoints

package cripoints

import (
	"context"
	"time"

	internalapi "k8s.io/cri-api/pkg/apis"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/podstream/podstream/internal/failpoint"
)

// Around adds the points to the two clients.
func Around(runtime internalapi.RuntimeService, images internalapi.ImageManagerService) (internalapi.RuntimeService, internalapi.ImageManagerService) {
	return runtimeService{runtime}, imageService{images}
}

type runtimeService struct{ internalapi.RuntimeService }

type imageService struct {
	internalapi.ImageManagerService
}

// around passes the point before a call, and returns the function that passes the point after it.
func around(call string) (after func()) {
	failpoint.Reached(failpoint.BeforeCall(call))
	return func() { failpoint.Reached(failpoint.AfterCall(call)) }
}

func (r runtimeService) RunPodSandbox(ctx context.Context, config *runtimeapi.PodSandboxConfig, handler string) (string, error) {
	defer around("RunPodSandbox")()
	return r.RuntimeService.RunPodSandbox(ctx, config, handler)
}

func (r runtimeService) StopPodSandbox(ctx context.Context, id string) error {
	defer around("StopPodSandbox")()
	return r.RuntimeService.StopPodSandbox(ctx, id)
}

func (r runtimeService) RemovePodSandbox(ctx context.Context, id string) error {
	defer around("RemovePodSandbox")()
	return r.RuntimeService.RemovePodSandbox(ctx, id)
}

func (r runtimeService) CreateContainer(
	ctx context.Context, sandbox string, config *runtimeapi.ContainerConfig, sandboxConfig *runtimeapi.PodSandboxConfig,
) (string, error) {
	defer around("CreateContainer")()
	return r.RuntimeService.CreateContainer(ctx, sandbox, config, sandboxConfig)
}

func (r runtimeService) StartContainer(ctx context.Context, id string) error {
	defer around("StartContainer")()
	return r.RuntimeService.StartContainer(ctx, id)
}

func (r runtimeService) StopContainer(ctx context.Context, id string, timeout int64) error {
	defer around("StopContainer")()
	return r.RuntimeService.StopContainer(ctx, id, timeout)
}

func (r runtimeService) RemoveContainer(ctx context.Context, id string) error {
	defer around("RemoveContainer")()
	return r.RuntimeService.RemoveContainer(ctx, id)
}

func (r runtimeService) ExecSync(ctx context.Context, id string, cmd []string, timeout time.Duration) (stdout, stderr []byte, err error) {
	defer around("ExecSync")()
	return r.RuntimeService.ExecSync(ctx, id, cmd, timeout)
}

func (i imageService) PullImage(
	ctx context.Context, image *runtimeapi.ImageSpec, auth *runtimeapi.AuthConfig, sandboxConfig *runtimeapi.PodSandboxConfig,
) (string, error) {
	defer around("PullImage")()
	return i.ImageManagerService.PullImage(ctx, image, auth, sandboxConfig)
}
