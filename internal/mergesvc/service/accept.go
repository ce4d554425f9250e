package service

import (
	"context"
	"fmt"
	"slices"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	podconfigv1 "github.com/podstream/podstream/proto/podconfig/v1"
)

// AcceptSource is part of podconfig.v1.PodConfigService.
func (s *Server) AcceptSource(ctx context.Context, req *podconfigv1.AcceptSourceRequest) (*podconfigv1.AcceptSourceResponse, error) {
	caller, err := callerOf(ctx)
	if err != nil {
		return nil, err
	}
	if len(caller.Nodes) > 0 || len(caller.Sources) > 0 {
		return nil, permissionDenied("an operator whose scope is some nodes or sources can't accept a change for all")
	}
	source := req.GetSource()
	// A consumer that is held later isn't among those that the administrator has seen.
	asked := s.clock.Now()
	needs, behind := s.consumers.holding(source)
	configured := s.history.Sources().Configured(source)
	if !configured && needs+behind == 0 {
		return nil, status.Errorf(codes.NotFound, "source: podconfigd has none of the name %q", source)
	}
	resp := &podconfigv1.AcceptSourceResponse{}
	held := needs
	if req.GetBehind() {
		held += behind
	}
	if configured && s.cfg.Accept != nil {
		what, err := s.cfg.Accept(source)
		if err != nil {
			// Nothing is accepted then.
			return nil, status.Errorf(codes.Internal, "accept what source %s refuses: %v", source, err)
		}
		if what != "" {
			resp.Accepted = append(resp.Accepted, what)
		}
	}
	if held > 0 {
		s.accepted.accept(source, req.GetBehind(), asked)
		s.history.WakeWaiting()
		resp.Accepted = append(resp.Accepted, fmt.Sprintf("%d consumers for which source %s was held get what it has here", held, source))
	}
	if len(resp.GetAccepted()) == 0 && behind > 0 {
		return nil, status.Errorf(codes.FailedPrecondition, "source %s is held for %d consumers only until podconfigd has caught up, which needs no "+
			"acceptance; to take these consumers back to what podconfigd has, accept that too (podctl sources accept --behind %s)", source, behind, source)
	}
	if len(resp.GetAccepted()) == 0 {
		return nil, status.Errorf(codes.FailedPrecondition, "nothing of source %s is refused now", source)
	}
	s.log.Warn("an administrator accepted what was refused", "source", source, "identity", caller.Identity, "accepted", resp.GetAccepted())
	return resp, nil
}

// holding counts the streams for which the source is held: those for which only an administrator can end that, and the others.
func (cs *consumers) holding(source string) (needs, behind int) {
	for _, c := range cs.all() {
		list := c.heldSources.Load()
		if list == nil {
			continue
		}
		i := slices.IndexFunc(*list, func(h *podconfigv1.HeldSource) bool { return h.GetName() == source })
		switch {
		case i < 0:
		case (*list)[i].GetNeedsAcceptance():
			needs++
		default:
			behind++
		}
	}
	return needs, behind
}
