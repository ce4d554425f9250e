package instrumented

import (
	"context"

	internalapi "k8s.io/cri-api/pkg/apis"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// runtimeService counts the calls of a runtime service. Methods that it doesn't have itself would not be counted: a test
// calls them all.
type runtimeService struct {
	internalapi.RuntimeService
	calls *Calls
}

// Version is part of cri.RuntimeService.
func (r runtimeService) Version(ctx context.Context, version string) (out *runtimeapi.VersionResponse, err error) {
	defer r.calls.begin("version")(&err)
	return r.RuntimeService.Version(ctx, version)
}

// RunPodSandbox is part of cri.RuntimeService.
func (r runtimeService) RunPodSandbox(ctx context.Context, config *runtimeapi.PodSandboxConfig, handler string) (out string, err error) {
	defer r.calls.begin("run_podsandbox")(&err)
	defer r.calls.sandbox(handler)(&err)
	return r.RuntimeService.RunPodSandbox(ctx, config, handler)
}

// StopPodSandbox is part of cri.RuntimeService.
func (r runtimeService) StopPodSandbox(ctx context.Context, id string) (err error) {
	defer r.calls.begin("stop_podsandbox")(&err)
	return r.RuntimeService.StopPodSandbox(ctx, id)
}

// RemovePodSandbox is part of cri.RuntimeService.
func (r runtimeService) RemovePodSandbox(ctx context.Context, id string) (err error) {
	defer r.calls.begin("remove_podsandbox")(&err)
	return r.RuntimeService.RemovePodSandbox(ctx, id)
}

// PodSandboxStatus is part of cri.RuntimeService.
func (r runtimeService) PodSandboxStatus(
	ctx context.Context, id string, verbose bool,
) (out *runtimeapi.PodSandboxStatusResponse, err error) {
	defer r.calls.begin("podsandbox_status")(&err)
	return r.RuntimeService.PodSandboxStatus(ctx, id, verbose)
}

// ListPodSandbox is part of cri.RuntimeService.
func (r runtimeService) ListPodSandbox(ctx context.Context, filter *runtimeapi.PodSandboxFilter) (out []*runtimeapi.PodSandbox, err error) {
	defer r.calls.begin("list_podsandbox")(&err)
	return r.RuntimeService.ListPodSandbox(ctx, filter)
}

// PortForward is part of cri.RuntimeService.
func (r runtimeService) PortForward(
	ctx context.Context, req *runtimeapi.PortForwardRequest,
) (out *runtimeapi.PortForwardResponse, err error) {
	defer r.calls.begin("port_forward")(&err)
	return r.RuntimeService.PortForward(ctx, req)
}

// UpdatePodSandboxResources is part of cri.RuntimeService.
func (r runtimeService) UpdatePodSandboxResources(
	ctx context.Context, req *runtimeapi.UpdatePodSandboxResourcesRequest,
) (out *runtimeapi.UpdatePodSandboxResourcesResponse, err error) {
	defer r.calls.begin("update_podsandbox_resources")(&err)
	return r.RuntimeService.UpdatePodSandboxResources(ctx, req)
}

// CheckpointPod is part of cri.RuntimeService.
func (r runtimeService) CheckpointPod(ctx context.Context, req *runtimeapi.CheckpointPodRequest) (err error) {
	defer r.calls.begin("checkpoint_pod")(&err)
	return r.RuntimeService.CheckpointPod(ctx, req)
}

// RestorePod is part of cri.RuntimeService.
func (r runtimeService) RestorePod(ctx context.Context, req *runtimeapi.RestorePodRequest) (out *runtimeapi.RestorePodResponse, err error) {
	defer r.calls.begin("restore_pod")(&err)
	return r.RuntimeService.RestorePod(ctx, req)
}

// UpdateRuntimeConfig is part of cri.RuntimeService.
func (r runtimeService) UpdateRuntimeConfig(ctx context.Context, config *runtimeapi.RuntimeConfig) (err error) {
	defer r.calls.begin("update_runtime_config")(&err)
	return r.RuntimeService.UpdateRuntimeConfig(ctx, config)
}

// Status is part of cri.RuntimeService.
func (r runtimeService) Status(ctx context.Context, verbose bool) (out *runtimeapi.StatusResponse, err error) {
	defer r.calls.begin("status")(&err)
	return r.RuntimeService.Status(ctx, verbose)
}

// RuntimeConfig is part of cri.RuntimeService.
func (r runtimeService) RuntimeConfig(ctx context.Context) (out *runtimeapi.RuntimeConfigResponse, err error) {
	defer r.calls.begin("runtime_config")(&err)
	return r.RuntimeService.RuntimeConfig(ctx)
}

// Close is part of cri.RuntimeService.
func (r runtimeService) Close(ctx context.Context) (err error) {
	defer r.calls.begin("close")(&err)
	return r.RuntimeService.Close(ctx)
}
