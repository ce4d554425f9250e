package service_test

import (
	"context"
	"fmt"
	"strings"
	"testing"

	podconfigv1 "github.com/podstream/podstream/proto/podconfig/v1"
)

// stream is one consumer's subscription.
type stream struct {
	t      *testing.T
	cancel context.CancelFunc
	podconfigv1.PodConfigService_WatchPodUpdatesClient
}

// watch subscribes. The stream ends with the test.
func (n *node) watch(req *podconfigv1.WatchPodUpdatesRequest) *stream {
	n.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), deadline)
	n.t.Cleanup(cancel)
	s, err := n.api.WatchPodUpdates(ctx, req)
	if err != nil {
		n.t.Fatalf("WatchPodUpdates: %v; want a stream", err)
	}
	return &stream{t: n.t, cancel: cancel, PodConfigService_WatchPodUpdatesClient: s}
}

// reference returns a request for pods without content, with a cursor that may be nil, and known pods.
func reference(cursor *podconfigv1.Cursor, known ...*podconfigv1.KnownPod) *podconfigv1.WatchPodUpdatesRequest {
	return &podconfigv1.WatchPodUpdatesRequest{
		Format: podconfigv1.PodFormat_POD_FORMAT_REFERENCE, ResumeAfter: cursor, KnownPods: known,
	}
}

// next returns the next message.
func (s *stream) next() *podconfigv1.WatchPodUpdatesResponse {
	s.t.Helper()
	m, err := s.Recv()
	if err != nil {
		s.t.Fatalf("the stream ended with %v; want another message", err)
	}
	return m
}

// unit is what a consumer applies as a whole: all messages up to a cursor.
type unit struct {
	messages []*podconfigv1.WatchPodUpdatesResponse
	cursor   *podconfigv1.Cursor
	// synced is set if the unit reports that the initial state is complete.
	synced *podconfigv1.Synced
}

// unit reads the next unit, and checks that cursor and continued are correct.
func (s *stream) unit() unit {
	s.t.Helper()
	var u unit
	for {
		m := s.next()
		u.messages = append(u.messages, m)
		if m.GetContinued() == (m.GetCursor() != nil) {
			s.t.Fatalf("message %d of a unit has continued=%v and cursor %v; want exactly one of them (G4)",
				len(u.messages), m.GetContinued(), m.GetCursor())
		}
		if m.GetCursor() != nil {
			u.cursor, u.synced = m.GetCursor(), m.GetSynced()
			return u
		}
	}
}

// want reads the next unit and compares its ops with lines like "ADD file: web db", or the word "synced".
func (s *stream) want(lines ...string) unit {
	s.t.Helper()
	u := s.unit()
	if got, want := u.String(), strings.Join(lines, "\n"); got != want {
		s.t.Fatalf("the next unit is\n%s\nwant\n%s", got, want)
	}
	return u
}

// String returns the ops of the unit, one message on each line, pods by UID.
func (u unit) String() string {
	var lines []string
	for _, m := range u.messages {
		switch e := m.GetEvent().(type) {
		case *podconfigv1.WatchPodUpdatesResponse_Update:
			line := fmt.Sprintf("%s %s:", strings.TrimPrefix(e.Update.GetOp().String(), "POD_OPERATION_"), e.Update.GetSource())
			for _, p := range e.Update.GetPods() {
				line += " " + p.GetRef().GetUid()
			}
			lines = append(lines, line)
		case *podconfigv1.WatchPodUpdatesResponse_Synced:
			lines = append(lines, "synced")
		case *podconfigv1.WatchPodUpdatesResponse_Heartbeat:
			lines = append(lines, "heartbeat")
		default:
			lines = append(lines, fmt.Sprintf("%T", e))
		}
	}
	return strings.Join(lines, "\n")
}

// pods returns all pods of the unit.
func (u unit) pods() []*podconfigv1.Pod {
	var out []*podconfigv1.Pod
	for _, m := range u.messages {
		out = append(out, m.GetUpdate().GetPods()...)
	}
	return out
}
