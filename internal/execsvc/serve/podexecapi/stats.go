package podexecapi

import (
	"context"

	"k8s.io/apimachinery/pkg/types"

	podexecv1 "github.com/podstream/podstream/proto/podexec/v1"
)

// Stats has the use of resources: a *stats.Stats.
type Stats interface {
	// Usage returns that of the node and its running pods, in order. If brief is set, that is without the network.
	Usage(ctx context.Context, brief bool) (*podexecv1.NodeStats, []*podexecv1.PodStats, error)
}

// GetStats is part of podexec.v1.PodExecService.
func (s *Server) GetStats(ctx context.Context, req *podexecv1.GetStatsRequest) (*podexecv1.GetStatsResponse, error) {
	if s.cfg.Stats == nil {
		return nil, unimplemented("this podexecd has no stats")
	}
	v, err := s.view(ctx, req.GetFilter())
	if err != nil {
		return nil, err
	}
	if !v.here {
		return &podexecv1.GetStatsResponse{}, nil
	}
	node, pods, err := s.cfg.Stats.Usage(ctx, req.GetOnlyCpuAndMemory())
	if err != nil && node == nil {
		return nil, v.runtimeError(ctx, "read the stats", err)
	}
	resp := &podexecv1.GetStatsResponse{Node: node}
	for _, p := range pods {
		// A pod that isn't shown has no known source, so a caller that is limited to sources doesn't see it.
		shown, _ := s.cfg.Board.Get(types.UID(p.GetRef().GetUid()))
		if v.sees(shown.Source, p.GetRef().GetNamespace(), p.GetRef().GetName()) {
			resp.Pods = append(resp.Pods, p)
		}
	}
	return resp, nil
}
