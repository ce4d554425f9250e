package podexecapi

import (
	"crypto/sha256"
	"fmt"
	"strconv"
	"strings"

	"google.golang.org/grpc"
	"google.golang.org/protobuf/proto"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podstream/podstream/internal/execsvc/pod/podview"
	podconfigv1 "github.com/podstream/podstream/proto/podconfig/v1"
	podexecv1 "github.com/podstream/podstream/proto/podexec/v1"
)

// watch is one stream of WatchPodStatus.
type watch struct {
	stream grpc.ServerStreamingServer[podexecv1.WatchPodStatusResponse]
	view   view
	format podconfigv1.PodFormat
	// sent are the digests of the pods that an inspector was sent. Nil for other callers.
	sent map[types.UID][sha256.Size]byte
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
	if !v.audience.Whole() {
		w.sent = map[types.UID][sha256.Size]byte{}
	}
	at := w.position(req.GetResumeToken())
	for synced := false; ctx.Err() == nil; {
		changes, now, more, resumed := s.cfg.Board.Since(at)
		// If a watcher is so far behind that the board no longer has the removals, it gets the current state, as on
		// reconnecting.
		if synced && !resumed {
			clear(w.sent)
		}
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

// catchUp sends changes that are valid only together, and then the watcher's position.
func (w watch) catchUp(changes []podview.Change, now podview.Position, resumed bool) error {
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

// follow sends changes each of which is valid by itself.
func (w watch) follow(changes []podview.Change) error {
	for _, c := range changes {
		if err := w.send(c, w.token(c.At)); err != nil {
			return err
		}
	}
	return nil
}

// send sends one change, if it is in the view.
func (w watch) send(c podview.Change, token string) error {
	if !w.view.sees(c.Pod.Source, c.Pod.Namespace, c.Pod.Name) {
		return nil
	}
	resp := &podexecv1.WatchPodStatusResponse{ResumeToken: token}
	if c.Removed {
		delete(w.sent, c.Pod.UID)
		resp.Event = &podexecv1.WatchPodStatusResponse_Removed{Removed: reference(c.Pod)}
		return w.stream.Send(resp)
	}
	m, err := w.view.message(c.Pod, w.format)
	if err != nil {
		return err
	}
	if same, err := w.sentBefore(c.Pod.UID, m); same || err != nil {
		return err
	}
	resp.Event = &podexecv1.WatchPodStatusResponse_Pod{Pod: m}
	return w.stream.Send(resp)
}

// sentBefore reports whether an inspector was sent the same content before: then something has changed that it may
// not see, not even that it changed. The time of the change doesn't count.
func (w watch) sentBefore(uid types.UID, m *podexecv1.ObservedPod) (bool, error) {
	if w.sent == nil {
		return false, nil
	}
	at := m.ChangedTime
	m.ChangedTime = nil
	data, err := proto.MarshalOptions{Deterministic: true}.Marshal(m)
	m.ChangedTime = at
	if err != nil {
		return false, internal("encode pod %s: %v", m.GetRef().GetName(), err)
	}
	digest := sha256.Sum256(data)
	before, sent := w.sent[uid]
	w.sent[uid] = digest
	return sent && before == digest, nil
}

// token returns a position, bound to the view: with another view changes would be missed.
func (w watch) token(p podview.Position) string {
	return fmt.Sprintf("%s.%d.%s", p.Instance, p.Number, w.view.hash)
}

// position returns the position of a token. A token of another view, or not from podexecd, is before everything; so
// is an inspector's, because the list of changed pods would reveal changes that it may not see.
func (w watch) position(token string) podview.Position {
	instance, rest, _ := strings.Cut(token, ".")
	number, hash, _ := strings.Cut(rest, ".")
	n, err := strconv.ParseUint(number, 10, 64)
	if err != nil || hash != w.view.hash || w.sent != nil {
		return podview.Position{}
	}
	return podview.Position{Instance: instance, Number: n}
}
