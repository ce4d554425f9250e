package simruntime

import (
	"slices"

	"google.golang.org/grpc"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// streamBatch is the number of items in a message of a streamed list. It is small, so that tests receive several
// messages.
const streamBatch = 16

// streamList sends the list in batches, or returns Unimplemented as an older runtime does.
func streamList[R, T any](s *Server, stream grpc.ServerStreamingServer[R], list func() []T, response func([]T) *R) error {
	if !s.cfg.ListStreams {
		return unimplemented("streamed lists")
	}
	for batch := range slices.Chunk(list(), streamBatch) {
		if err := stream.Send(response(batch)); err != nil {
			return err
		}
	}
	return nil
}

// StreamPodSandboxes is ListPodSandbox in batches.
func (s *runtimeService) StreamPodSandboxes(req *runtimeapi.StreamPodSandboxesRequest, stream grpc.ServerStreamingServer[runtimeapi.StreamPodSandboxesResponse]) error {
	return streamList(s.Server, stream,
		func() []*runtimeapi.PodSandbox { return s.listSandboxes(req.GetFilter()) },
		func(batch []*runtimeapi.PodSandbox) *runtimeapi.StreamPodSandboxesResponse {
			return &runtimeapi.StreamPodSandboxesResponse{PodSandboxes: batch}
		})
}

// StreamContainers is ListContainers in batches.
func (s *runtimeService) StreamContainers(req *runtimeapi.StreamContainersRequest, stream grpc.ServerStreamingServer[runtimeapi.StreamContainersResponse]) error {
	return streamList(s.Server, stream,
		func() []*runtimeapi.Container { return s.listContainers(req.GetFilter()) },
		func(batch []*runtimeapi.Container) *runtimeapi.StreamContainersResponse {
			return &runtimeapi.StreamContainersResponse{Containers: batch}
		})
}

// StreamContainerStats is ListContainerStats in batches.
func (s *runtimeService) StreamContainerStats(req *runtimeapi.StreamContainerStatsRequest, stream grpc.ServerStreamingServer[runtimeapi.StreamContainerStatsResponse]) error {
	return streamList(s.Server, stream,
		func() []*runtimeapi.ContainerStats { return s.listContainerStats(req.GetFilter()) },
		func(batch []*runtimeapi.ContainerStats) *runtimeapi.StreamContainerStatsResponse {
			return &runtimeapi.StreamContainerStatsResponse{ContainerStats: batch}
		})
}

// StreamPodSandboxStats is ListPodSandboxStats in batches.
func (s *runtimeService) StreamPodSandboxStats(req *runtimeapi.StreamPodSandboxStatsRequest, stream grpc.ServerStreamingServer[runtimeapi.StreamPodSandboxStatsResponse]) error {
	return streamList(s.Server, stream,
		func() []*runtimeapi.PodSandboxStats { return s.listSandboxStats(req.GetFilter()) },
		func(batch []*runtimeapi.PodSandboxStats) *runtimeapi.StreamPodSandboxStatsResponse {
			return &runtimeapi.StreamPodSandboxStatsResponse{PodSandboxStats: batch}
		})
}

// StreamImages is ListImages in batches.
func (s *imageService) StreamImages(req *runtimeapi.StreamImagesRequest, stream grpc.ServerStreamingServer[runtimeapi.StreamImagesResponse]) error {
	return streamList(s.Server, stream,
		func() []*runtimeapi.Image { return s.listImages(req.GetFilter()) },
		func(batch []*runtimeapi.Image) *runtimeapi.StreamImagesResponse {
			return &runtimeapi.StreamImagesResponse{Images: batch}
		})
}
