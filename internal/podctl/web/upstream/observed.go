package upstream

import (
	"context"
	"errors"
	"io"

	podconfigv1 "github.com/podstream/podstream/proto/podconfig/v1"
	podexecv1 "github.com/podstream/podstream/proto/podexec/v1"
)

// observedFollower follows podexecd's statuses across connections.
type observedFollower struct {
	upstream *Upstream
	token    string // the position after what was applied
}

// attempt follows one stream to its end. Messages without a token are applied once the catch-up is complete.
func (f *observedFollower) attempt(ctx context.Context, live func()) error {
	s, err := podexecv1.NewPodExecServiceClient(f.upstream.cfg.Podexecd.Conn).WatchPodStatus(ctx, &podexecv1.WatchPodStatusRequest{
		Format: podconfigv1.PodFormat_POD_FORMAT_PROTOBUF, ResumeToken: f.token,
	})
	if err != nil {
		return err
	}
	var pods []*podexecv1.ObservedPod
	var removed []*podconfigv1.PodRef
	size := intake{most: f.upstream.cfg.MaxBytes}
	for {
		m, err := s.Recv()
		if err != nil {
			return ended(err)
		}
		if err := size.add(m); err != nil {
			return err
		}
		switch event := m.GetEvent().(type) {
		case *podexecv1.WatchPodStatusResponse_Pod:
			pods = append(pods, event.Pod)
		case *podexecv1.WatchPodStatusResponse_Removed:
			removed = append(removed, event.Removed)
		}
		synced := m.GetSynced()
		if m.GetResumeToken() == "" && synced == nil {
			continue
		}
		f.upstream.board.ApplyObserved(pods, removed, synced != nil && !synced.GetResumed())
		pods, removed, f.token, size.bytes = nil, nil, m.GetResumeToken(), 0
		if synced != nil {
			live()
		}
	}
}

// ended returns the error of a stream that its daemon may have ended in good order.
func ended(err error) error {
	if errors.Is(err, io.EOF) {
		return errOver
	}
	return err
}

// watchEvents follows podexecd's events. Each stream has all events that it keeps.
func (u *Upstream) watchEvents(ctx context.Context, live func()) error {
	s, err := podexecv1.NewPodExecServiceClient(u.cfg.Podexecd.Conn).WatchEvents(ctx, &podexecv1.WatchEventsRequest{Follow: true})
	if err != nil {
		return err
	}
	if _, err := s.Header(); err != nil {
		return err
	}
	live()
	for {
		m, err := s.Recv()
		if err != nil {
			return ended(err)
		}
		u.board.ApplyEvent(m.GetEvent())
	}
}
