package service

import (
	"context"
	"runtime"

	"github.com/podstream/podstream/internal/daemon/process"
	podconfigv1 "github.com/podstream/podstream/proto/podconfig/v1"
)

// GetVersion is part of podconfig.v1.PodConfigService.
func (s *Server) GetVersion(ctx context.Context, _ *podconfigv1.GetVersionRequest) (*podconfigv1.GetVersionResponse, error) {
	caller, err := callerOf(ctx)
	if err != nil {
		return nil, err
	}
	resp := &podconfigv1.GetVersionResponse{
		Version: s.cfg.Version, GoVersion: runtime.Version(), Platform: process.Platform,
	}
	if caller.HasNode(s.cfg.Node) {
		resp.NodeName = s.cfg.Node
	}
	return resp, nil
}
