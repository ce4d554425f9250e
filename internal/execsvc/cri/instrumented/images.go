package instrumented

import (
	"context"

	internalapi "k8s.io/cri-api/pkg/apis"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// imageService counts the calls of an image service.
type imageService struct {
	internalapi.ImageManagerService
	calls *Calls
}

// ListImages is part of cri.ImageManagerService.
func (i imageService) ListImages(ctx context.Context, filter *runtimeapi.ImageFilter) (out []*runtimeapi.Image, err error) {
	defer i.calls.begin("list_images")(&err)
	return i.ImageManagerService.ListImages(ctx, filter)
}

// ImageStatus is part of cri.ImageManagerService.
func (i imageService) ImageStatus(
	ctx context.Context, image *runtimeapi.ImageSpec, verbose bool,
) (out *runtimeapi.ImageStatusResponse, err error) {
	defer i.calls.begin("image_status")(&err)
	return i.ImageManagerService.ImageStatus(ctx, image, verbose)
}

// PullImage is part of cri.ImageManagerService.
func (i imageService) PullImage(
	ctx context.Context, image *runtimeapi.ImageSpec, auth *runtimeapi.AuthConfig, sandbox *runtimeapi.PodSandboxConfig,
) (out string, err error) {
	defer i.calls.begin("pull_image")(&err)
	return i.ImageManagerService.PullImage(ctx, image, auth, sandbox)
}

// RemoveImage is part of cri.ImageManagerService.
func (i imageService) RemoveImage(ctx context.Context, image *runtimeapi.ImageSpec) (err error) {
	defer i.calls.begin("remove_image")(&err)
	return i.ImageManagerService.RemoveImage(ctx, image)
}

// ImageFsInfo is part of cri.ImageManagerService.
func (i imageService) ImageFsInfo(ctx context.Context) (out *runtimeapi.ImageFsInfoResponse, err error) {
	defer i.calls.begin("image_fs_info")(&err)
	return i.ImageManagerService.ImageFsInfo(ctx)
}

// Close is part of cri.ImageManagerService.
func (i imageService) Close(ctx context.Context) (err error) {
	defer i.calls.begin("close")(&err)
	return i.ImageManagerService.Close(ctx)
}
