package service

import (
	"context"

	"connectrpc.com/connect"

	"github.com/podstream/podstream/internal/podctl/web/board"
	podwebv1 "github.com/podstream/podstream/internal/podctl/web/proto/podweb/v1"
)

// maxPage is the size of a page of revisions in bytes, roughly.
const maxPage = 1 << 20

// ListRevisions is part of podweb.v1.
func (s *Service) ListRevisions(_ context.Context, req *podwebv1.ListRevisionsRequest) (*podwebv1.ListRevisionsResponse, error) {
	s.cfg.Idle.Touch()
	const usual, most = 100, 500
	limit := tail(int(req.GetLimit()), usual, most)
	timeline := s.cfg.Board.Timeline
	var entries []*board.Entry
	switch {
	case req.GetPodKey() != "":
		entries = concerning(timeline, req, limit)
	case req.GetForward():
		entries, _, _, _ = timeline.Log.Read(req.GetSequence(), limit, maxPage)
	default:
		entries = timeline.Log.ReadBack(req.GetSequence(), limit, maxPage)
	}
	begin, _ := timeline.Begin.Get()
	_, newest := timeline.Log.Bounds()
	out := &podwebv1.ListRevisionsResponse{Begin: begin, Newest: newest}
	for _, e := range entries {
		out.Revisions = append(out.Revisions, e.Revision)
	}
	return out, nil
}

// concerning returns the entries of a page that concern a pod.
func concerning(timeline *board.Timeline, req *podwebv1.ListRevisionsRequest, limit int) []*board.Entry {
	var entries []*board.Entry
	timeline.Log.Each(func(number uint64, e *board.Entry) bool {
		switch {
		case req.GetForward() && number <= req.GetSequence():
			return true
		case !req.GetForward() && req.GetSequence() > 0 && number >= req.GetSequence():
			return false
		case !e.Concerns(req.GetPodKey()):
			return true
		}
		entries = append(entries, e)
		if len(entries) <= limit {
			return true
		}
		if req.GetForward() {
			entries = entries[:limit]
			return false
		}
		entries = entries[1:]
		return true
	})
	return entries
}

// ListDesiredAt is part of podweb.v1.
func (s *Service) ListDesiredAt(_ context.Context, req *podwebv1.ListDesiredAtRequest) (*podwebv1.ListDesiredAtResponse, error) {
	s.cfg.Idle.Touch()
	pods, ok := s.cfg.Board.Timeline.DesiredAt(req.GetSequence())
	if !ok {
		return nil, refuse(connect.CodeNotFound, "this revision isn't kept")
	}
	shown := pods[:min(len(pods), maxRows)]
	return &podwebv1.ListDesiredAtResponse{Pods: shown, Omitted: int32(len(pods) - len(shown))}, nil //nolint:gosec // The pods are bounded.
}
