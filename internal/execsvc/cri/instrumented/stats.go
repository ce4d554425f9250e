package instrumented

import (
	"context"

	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// ContainerStats is part of cri.RuntimeService.
func (r runtimeService) ContainerStats(ctx context.Context, id string) (out *runtimeapi.ContainerStats, err error) {
	defer r.calls.begin("container_stats")(&err)
	return r.RuntimeService.ContainerStats(ctx, id)
}

// ListContainerStats is part of cri.RuntimeService.
func (r runtimeService) ListContainerStats(
	ctx context.Context, filter *runtimeapi.ContainerStatsFilter,
) (out []*runtimeapi.ContainerStats, err error) {
	defer r.calls.begin("list_container_stats")(&err)
	return r.RuntimeService.ListContainerStats(ctx, filter)
}

// PodSandboxStats is part of cri.RuntimeService.
func (r runtimeService) PodSandboxStats(ctx context.Context, id string) (out *runtimeapi.PodSandboxStats, err error) {
	defer r.calls.begin("podsandbox_stats")(&err)
	return r.RuntimeService.PodSandboxStats(ctx, id)
}

// ListPodSandboxStats is part of cri.RuntimeService.
func (r runtimeService) ListPodSandboxStats(
	ctx context.Context, filter *runtimeapi.PodSandboxStatsFilter,
) (out []*runtimeapi.PodSandboxStats, err error) {
	defer r.calls.begin("list_podsandbox_stats")(&err)
	return r.RuntimeService.ListPodSandboxStats(ctx, filter)
}

// ListMetricDescriptors is part of cri.RuntimeService.
func (r runtimeService) ListMetricDescriptors(ctx context.Context) (out []*runtimeapi.MetricDescriptor, err error) {
	defer r.calls.begin("list_metric_descriptors")(&err)
	return r.RuntimeService.ListMetricDescriptors(ctx)
}

// ListPodSandboxMetrics is part of cri.RuntimeService.
func (r runtimeService) ListPodSandboxMetrics(ctx context.Context) (out []*runtimeapi.PodSandboxMetrics, err error) {
	defer r.calls.begin("list_podsandbox_metrics")(&err)
	return r.RuntimeService.ListPodSandboxMetrics(ctx)
}
