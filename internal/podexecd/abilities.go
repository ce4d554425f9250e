package podexecd

import (
	"context"
	"fmt"
	"log/slog"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	clusternode "github.com/podstream/podstream/internal/execsvc/cluster/node"
	"github.com/podstream/podstream/internal/execsvc/decide/admit"
	"github.com/podstream/podstream/internal/execsvc/decide/nodestatus"
	"github.com/podstream/podstream/internal/execsvc/setup/cgroup"
)

// status returns the status of the runtime, which may be replaced by another version while podexecd runs.
func (c *connection) status() *clusternode.RuntimeStatus {
	return clusternode.NewRuntimeStatus(clusternode.RuntimeConfig{
		Status:  func(ctx context.Context) (*runtimeapi.StatusResponse, error) { return c.runtime.Status(ctx, false) },
		Version: func(ctx context.Context) (*runtimeapi.VersionResponse, error) { return c.runtime.Version(ctx, "v1") },
	})
}

// abilities returns the runtime's features. CRI doesn't report image volumes: runtimes with the supplemental groups
// policy have them, as they came with the release before.
func abilities(reported nodestatus.Runtime) admit.Runtime {
	r := admit.Runtime{
		Silent:                   reported.Silent,
		SupplementalGroupsPolicy: reported.Features.GetSupplementalGroupsPolicy(),
		Handlers:                 map[string]admit.Handler{},
	}
	for _, h := range reported.Handlers {
		r.Handlers[h.GetName()] = admit.Handler{
			UserNamespaces: h.GetFeatures().GetUserNamespaces(), RecursiveReadOnlyMounts: h.GetFeatures().GetRecursiveReadOnlyMounts(),
		}
	}
	r.ImageVolumes = r.SupplementalGroupsPolicy
	return r
}

// cgroupDriver returns the runtime's driver, or the configured one if the runtime is older than CRI 1.28 and doesn't
// report it. If the runtime doesn't answer, it is called again: pods in cgroups of another driver than the runtime's
// would have no limits. Each reason is logged once.
func (c *connection) cgroupDriver(ctx context.Context, configured string, log *slog.Logger) (string, error) {
	for reason := ""; ; {
		config, err := c.runtime.RuntimeConfig(ctx)
		switch {
		case status.Code(err) == codes.Unimplemented || err == nil && config.GetLinux() == nil:
			return configured, nil
		case err == nil && config.GetLinux().GetCgroupDriver() == runtimeapi.CgroupDriver_SYSTEMD:
			return cgroup.Systemd, nil
		case err == nil:
			return cgroup.Cgroupfs, nil
		}
		if ctx.Err() == nil && err.Error() != reason {
			reason = err.Error()
			log.Warn("waiting for the container runtime's cgroup driver", "error", err)
		}
		select {
		case <-time.After(retryConnect):
		case <-ctx.Done():
			// Not the last call's error: the end of podexecd is no failure.
			return "", fmt.Errorf("get the container runtime's cgroup driver: %w", ctx.Err())
		}
	}
}
