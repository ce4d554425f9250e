package runtime

import (
	"context"
	"fmt"
	"time"

	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// Checkpoint makes the runtime write a running container's state into the archive at path. The timeout is in whole
// seconds; the runtime's own timeout applies if it is longer.
func (r *Runtime) Checkpoint(ctx context.Context, containerID, path string, timeout time.Duration) error {
	err := r.cfg.Runtime.CheckpointContainer(ctx, &runtimeapi.CheckpointContainerRequest{
		ContainerId: containerID, Location: path, Timeout: int64(timeout / time.Second),
	})
	if err != nil {
		return fmt.Errorf("ask the container runtime for a checkpoint: %w", err)
	}
	return nil
}
