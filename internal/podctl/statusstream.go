package podctl

import (
	"context"
	"errors"
	"fmt"
	"io"

	"google.golang.org/grpc"

	podconfigv1 "github.com/podstream/podstream/proto/podconfig/v1"
	podexecv1 "github.com/podstream/podstream/proto/podexec/v1"
)

// podChanges are pods by UID. A nil pod isn't there.
type podChanges map[string]*podexecv1.ObservedPod

// statusStream keeps the observed pods that match a filter, across reconnections.
type statusStream struct {
	reconnection
	filter *podconfigv1.PodFilter
	// choose returns the messages about pods that are followed. Nil: all pods are.
	choose func(context.Context, []*podexecv1.WatchPodStatusResponse) ([]*podexecv1.WatchPodStatusResponse, error)
	// changed is called once the pods are complete, and after each change, with the pods that the messages were about, as they
	// were before and as they are now. Its error ends the stream.
	changed func(before, now podChanges) error

	pods podChanges
	// size is that of all pods.
	size listSize
	// token is the position of pods.
	token string
}

func (t *tool) newStatusStream(filter *podconfigv1.PodFilter) *statusStream {
	return &statusStream{
		reconnection: reconnection{tool: t, daemon: t.podexecd.name}, filter: filter, pods: podChanges{}, size: t.newListSize(),
	}
}

// run follows the pods until ctx ends, which is no error, or until an error that a retry can't resolve.
func (s *statusStream) run(ctx context.Context) error {
	return s.reconnect(ctx, s.subscribe, permanent, func(err error) { s.tool.note("%v; reconnecting", err) })
}

// subscribe follows one stream to its end, and resumes after the last one.
func (s *statusStream) subscribe(ctx context.Context) error {
	conn, err := s.tool.podexecd.connect(s.tool.userAgent())
	if err != nil {
		return err
	}
	defer conn.Close()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	stream, err := podexecv1.NewPodExecServiceClient(conn).WatchPodStatus(ctx, &podexecv1.WatchPodStatusRequest{
		Format: podconfigv1.PodFormat_POD_FORMAT_PROTOBUF, Filter: s.filter, ResumeToken: s.token,
	})
	if err == nil {
		err = s.follow(stream)
	}
	switch {
	case errors.As(err, new(ownError)), errors.As(err, new(labelError)):
		return err
	case errors.Is(err, io.EOF):
		return fmt.Errorf("%s at %s ended the stream", conn.daemon.name, &conn.daemon.endpoint)
	}
	return conn.explain(err)
}

// follow applies the messages of a stream until it ends; its error is never nil. Messages without a resume token are applied
// once the catch-up is complete: a break before that discards them.
func (s *statusStream) follow(stream grpc.ServerStreamingClient[podexecv1.WatchPodStatusResponse]) error {
	var held []*podexecv1.WatchPodStatusResponse
	size := s.tool.newListSize()
	for {
		m, err := stream.Recv()
		if err != nil {
			return err
		}
		s.arrived()
		if err := size.add(m); err != nil {
			return ownError{err}
		}
		held = append(held, m)
		// Synced always ends a catch-up.
		if m.GetResumeToken() == "" && m.GetSynced() == nil {
			continue
		}
		if s.choose != nil {
			if held, err = s.choose(stream.Context(), held); err != nil {
				return err
			}
		}
		if err := s.take(held); err != nil {
			return ownError{err}
		}
		held, size, s.token = nil, s.tool.newListSize(), m.GetResumeToken()
	}
}

// take applies messages that belong together.
func (s *statusStream) take(messages []*podexecv1.WatchPodStatusResponse) error {
	if len(messages) == 0 {
		return nil
	}
	now := podChanges{}
	for _, m := range messages {
		if removed := m.GetRemoved(); removed != nil {
			now[removed.GetUid()] = nil
		} else if pod := m.GetPod(); pod != nil {
			now[pod.GetRef().GetUid()] = pod
		}
	}
	if synced := messages[len(messages)-1].GetSynced(); synced != nil && !synced.GetResumed() {
		for uid := range s.pods {
			if _, there := now[uid]; !there {
				now[uid] = nil
			}
		}
	}
	before := podChanges{}
	for uid, pod := range now {
		before[uid] = s.pods[uid]
		if old := s.pods[uid]; old != nil {
			s.size.remove(old)
			delete(s.pods, uid)
		}
		if pod == nil {
			continue
		}
		if err := s.size.add(pod); err != nil {
			return err
		}
		s.pods[uid] = pod
	}
	return s.changed(before, now)
}
