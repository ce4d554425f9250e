package podexecapi

import (
	"context"
	"strings"

	"github.com/podstream/podstream/internal/access"
	"github.com/podstream/podstream/internal/execsvc/reclaim/imagegc"
	podexecv1 "github.com/podstream/podstream/proto/podexec/v1"
)

// The bounds of PruneImages: the IDs in a request, and the images in a response with their names and messages.
const (
	maxPruneIDs     = 10_000
	maxPruned       = 1000
	maxPrunedNames  = 5
	maxPruneMessage = 512
)

// PruneImages is part of podexec.v1.PodExecService.
func (s *Server) PruneImages(ctx context.Context, req *podexecv1.PruneImagesRequest) (*podexecv1.PruneImagesResponse, error) {
	if s.cfg.Images == nil {
		return nil, unimplemented("this podexecd removes no images")
	}
	v, err := s.nodeView(ctx, podexecv1.PodExecService_PruneImages_FullMethodName)
	if err != nil {
		return nil, err
	}
	if n := len(req.GetIds()); n > maxPruneIDs {
		return nil, invalidArgument("ids: has %d, and at most %d are allowed", n, maxPruneIDs)
	}
	caller, _ := access.FromContext(ctx)
	pruned, err := s.cfg.Images.Prune(ctx, imagegc.Pruning{
		DryRun: req.GetDryRun(), All: req.GetAll(), IDs: req.GetIds(), Max: maxPruned, Caller: caller.Identity,
	})
	if err != nil {
		return nil, v.runtimeError(ctx, "determine which images are unused, so none was removed", err)
	}
	resp := &podexecv1.PruneImagesResponse{More: pruned.More}
	for _, i := range pruned.Images {
		resp.Images = append(resp.Images, imageMessage(i, maxPrunedNames))
	}
	for _, f := range pruned.Failures {
		resp.Failures = append(resp.Failures, &podexecv1.PruneFailure{Image: imageMessage(f.Image, maxPrunedNames), Message: clip(v.errorText(f.Err), maxPruneMessage)})
	}
	return resp, nil
}

// clip returns the beginning of a text, with at most so many bytes.
func clip(text string, limit int) string {
	return strings.ToValidUTF8(text[:min(len(text), limit)], "")
}
