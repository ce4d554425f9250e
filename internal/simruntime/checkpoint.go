package simruntime

import (
	"context"
	"fmt"
	"os"

	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// CheckpointContainer writes the ID of a running container to the requested path.
func (s *runtimeService) CheckpointContainer(
	_ context.Context, req *runtimeapi.CheckpointContainerRequest,
) (*runtimeapi.CheckpointContainerResponse, error) {
	c, err := s.runningContainer(req.GetContainerId())
	if err != nil {
		return nil, err
	}
	if err := os.WriteFile(req.GetLocation(), []byte(c.id), 0o600); err != nil {
		return nil, fmt.Errorf("failed to write checkpoint: %w", err)
	}
	return &runtimeapi.CheckpointContainerResponse{}, nil
}
