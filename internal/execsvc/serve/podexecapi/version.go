package podexecapi

import (
	"context"
	"runtime"

	"github.com/podstream/podstream/internal/daemon/process"
	podexecv1 "github.com/podstream/podstream/proto/podexec/v1"
)

// GetVersion is part of podexec.v1.PodExecService.
func (s *Server) GetVersion(ctx context.Context, _ *podexecv1.GetVersionRequest) (*podexecv1.GetVersionResponse, error) {
	v, err := s.view(ctx, nil)
	if err != nil {
		return nil, err
	}
	resp := &podexecv1.GetVersionResponse{
		Version: s.cfg.Version, GoVersion: runtime.Version(), Platform: process.Platform,
	}
	if v.here {
		resp.NodeName = s.cfg.Node
	}
	return resp, nil
}
