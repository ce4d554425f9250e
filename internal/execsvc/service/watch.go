package service

import (
	"fmt"
	"strconv"
	"strings"

	"google.golang.org/grpc"

	"github.com/podstream/podstream/internal/execsvc/board"
	podconfigv1 "github.com/podstream/podstream/proto/podconfig/v1"
	podexecv1 "github.com/podstream/podstream/proto/podexec/v1"
)

// watch is one stream of WatchPodStatus.
type watch struct {
	stream grpc.ServerStreamingServer[podexecv1.WatchPodStatusResponse]
	view   view
	format podconfigv1.PodFormat
}

// WatchPodStatus is part of podexec.v1.PodExecService.
func (s *Server) WatchPodStatus(
	req *podexecv1.WatchPodStatusRequest, stream grpc.ServerStreamingServer[podexecv1.WatchPodStatusResponse],
) error {
	v, err := s.view(stream.Context(), req.GetFilter())
	if err != nil {
		return err
	}
	if err := checkFormat(req.GetFormat()); err != nil {
		return err
	}
	ctx, cancel := s.untilClosed(stream.Context())
	defer cancel()
	w := watch{stream: stream, view: v, format: req.GetFormat()}
	at := w.position(req.GetResumeToken())
	for synced := false; ctx.Err() == nil; {
		changes, now, more, resumed := s.cfg.Board.Since(at)
		// A watcher that falls so far behind that removals were forgotten gets the current state, as one that comes anew.
		if synced && resumed {
			err = w.follow(changes)
		} else {
			err = w.catchUp(changes, now, resumed)
		}
		if err != nil {
			return err
		}
		at, synced = now, true
		select {
		case <-more:
		case <-ctx.Done():
		}
	}
	return s.ended(ctx)
}

// catchUp sends changes that count only together, and where the watcher is after them.
func (w watch) catchUp(changes []board.Change, now board.Position, resumed bool) error {
	for _, c := range changes {
		if err := w.send(c, ""); err != nil {
			return err
		}
	}
	return w.stream.Send(&podexecv1.WatchPodStatusResponse{
		Event:       &podexecv1.WatchPodStatusResponse_Synced{Synced: &podexecv1.StatusSynced{Resumed: resumed}},
		ResumeToken: w.token(now),
	})
}

// follow sends changes each of which counts by itself.
func (w watch) follow(changes []board.Change) error {
	for _, c := range changes {
		if err := w.send(c, w.token(c.At)); err != nil {
			return err
		}
	}
	return nil
}

// send sends one change, if it is in the view.
func (w watch) send(c board.Change, token string) error {
	if !w.view.sees(c.Pod.Source, c.Pod.Namespace, c.Pod.Name) {
		return nil
	}
	resp := &podexecv1.WatchPodStatusResponse{ResumeToken: token}
	if c.Removed {
		resp.Event = &podexecv1.WatchPodStatusResponse_Removed{Removed: reference(c.Pod)}
		return w.stream.Send(resp)
	}
	m, err := w.view.message(c.Pod, w.format)
	if err != nil {
		return err
	}
	resp.Event = &podexecv1.WatchPodStatusResponse_Pod{Pod: m}
	return w.stream.Send(resp)
}

// token is a position, bound to the view: what another view has left out it would never learn.
func (w watch) token(p board.Position) string {
	return fmt.Sprintf("%s.%d.%s", p.Instance, p.Number, w.view.hash)
}

// position is that of a token. One of another view, or that isn't podexecd's, is before everything.
func (w watch) position(token string) board.Position {
	instance, rest, _ := strings.Cut(token, ".")
	number, hash, _ := strings.Cut(rest, ".")
	n, err := strconv.ParseUint(number, 10, 64)
	if err != nil || hash != w.view.hash {
		return board.Position{}
	}
	return board.Position{Instance: instance, Number: n}
}
