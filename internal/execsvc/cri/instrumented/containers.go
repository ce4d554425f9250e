package instrumented

import (
	"context"
	"time"

	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// CreateContainer is part of cri.RuntimeService.
func (r runtimeService) CreateContainer(
	ctx context.Context, id string, config *runtimeapi.ContainerConfig, sandbox *runtimeapi.PodSandboxConfig,
) (out string, err error) {
	defer r.calls.begin("create_container")(&err)
	return r.RuntimeService.CreateContainer(ctx, id, config, sandbox)
}

// StartContainer is part of cri.RuntimeService.
func (r runtimeService) StartContainer(ctx context.Context, id string) (err error) {
	defer r.calls.begin("start_container")(&err)
	return r.RuntimeService.StartContainer(ctx, id)
}

// StopContainer is part of cri.RuntimeService.
func (r runtimeService) StopContainer(ctx context.Context, id string, timeout int64) (err error) {
	defer r.calls.begin("stop_container")(&err)
	return r.RuntimeService.StopContainer(ctx, id, timeout)
}

// RemoveContainer is part of cri.RuntimeService.
func (r runtimeService) RemoveContainer(ctx context.Context, id string) (err error) {
	defer r.calls.begin("remove_container")(&err)
	return r.RuntimeService.RemoveContainer(ctx, id)
}

// ListContainers is part of cri.RuntimeService.
func (r runtimeService) ListContainers(ctx context.Context, filter *runtimeapi.ContainerFilter) (out []*runtimeapi.Container, err error) {
	defer r.calls.begin("list_containers")(&err)
	return r.RuntimeService.ListContainers(ctx, filter)
}

// ContainerStatus is part of cri.RuntimeService.
func (r runtimeService) ContainerStatus(ctx context.Context, id string, verbose bool) (out *runtimeapi.ContainerStatusResponse, err error) {
	defer r.calls.begin("container_status")(&err)
	return r.RuntimeService.ContainerStatus(ctx, id, verbose)
}

// UpdateContainerResources is part of cri.RuntimeService.
func (r runtimeService) UpdateContainerResources(ctx context.Context, id string, resources *runtimeapi.ContainerResources) (err error) {
	defer r.calls.begin("update_container")(&err)
	return r.RuntimeService.UpdateContainerResources(ctx, id, resources)
}

// ExecSync is part of cri.RuntimeService.
func (r runtimeService) ExecSync(ctx context.Context, id string, cmd []string, timeout time.Duration) (stdout, stderr []byte, err error) {
	defer r.calls.begin("exec_sync")(&err)
	return r.RuntimeService.ExecSync(ctx, id, cmd, timeout)
}

// Exec is part of cri.RuntimeService.
func (r runtimeService) Exec(ctx context.Context, req *runtimeapi.ExecRequest) (out *runtimeapi.ExecResponse, err error) {
	defer r.calls.begin("exec")(&err)
	return r.RuntimeService.Exec(ctx, req)
}

// Attach is part of cri.RuntimeService.
func (r runtimeService) Attach(ctx context.Context, req *runtimeapi.AttachRequest) (out *runtimeapi.AttachResponse, err error) {
	defer r.calls.begin("attach")(&err)
	return r.RuntimeService.Attach(ctx, req)
}

// ReopenContainerLog is part of cri.RuntimeService.
func (r runtimeService) ReopenContainerLog(ctx context.Context, id string) (err error) {
	defer r.calls.begin("reopen_container_log")(&err)
	return r.RuntimeService.ReopenContainerLog(ctx, id)
}

// CheckpointContainer is part of cri.RuntimeService.
func (r runtimeService) CheckpointContainer(ctx context.Context, req *runtimeapi.CheckpointContainerRequest) (err error) {
	defer r.calls.begin("checkpoint_container")(&err)
	return r.RuntimeService.CheckpointContainer(ctx, req)
}

// GetContainerEvents is part of cri.RuntimeService.
func (r runtimeService) GetContainerEvents(
	ctx context.Context, events chan *runtimeapi.ContainerEventResponse, opened func(runtimeapi.RuntimeService_GetContainerEventsClient),
) (err error) {
	defer r.calls.begin("get_container_events")(&err)
	return r.RuntimeService.GetContainerEvents(ctx, events, opened)
}
