package client_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podstream/podstream/client"
	podconfigv1 "github.com/podstream/podstream/proto/podconfig/v1"
)

// script is a podconfigd whose streams follow the test: the nth stream runs the nth function, and later ones wait for
// their end.
type script struct {
	podconfigv1.UnimplementedPodConfigServiceServer

	streams  []func(serverStream) error
	requests chan *podconfigv1.WatchPodUpdatesRequest
	reports  chan *podconfigv1.ReportAppliedRequest
	closing  chan struct{}
}

type serverStream = grpc.ServerStreamingServer[podconfigv1.WatchPodUpdatesResponse]

func newScript(streams ...func(serverStream) error) *script {
	return &script{
		streams: streams, requests: make(chan *podconfigv1.WatchPodUpdatesRequest, 10),
		reports: make(chan *podconfigv1.ReportAppliedRequest, 10), closing: make(chan struct{}),
	}
}

func (s *script) serve(p place) (stop func(), err error) {
	return p.serve(s, func() { close(s.closing) })
}

func (s *script) WatchPodUpdates(req *podconfigv1.WatchPodUpdatesRequest, stream serverStream) error {
	s.requests <- req
	if len(s.streams) == 0 {
		select {
		case <-s.closing:
		case <-stream.Context().Done():
		}
		return status.Error(codes.Unavailable, "the script is over")
	}
	run := s.streams[0]
	s.streams = s.streams[1:]
	return run(stream)
}

// ReportApplied refuses reports without a revision.
func (s *script) ReportApplied(_ context.Context, req *podconfigv1.ReportAppliedRequest) (*podconfigv1.ReportAppliedResponse, error) {
	if req.GetCursor() == nil {
		return nil, status.Error(codes.InvalidArgument, "cursor: unset")
	}
	s.reports <- req
	return &podconfigv1.ReportAppliedResponse{}, nil
}

// send sends the message; an error means that the client has closed the stream.
func send(s serverStream, m *podconfigv1.WatchPodUpdatesResponse) { _ = s.Send(m) }

func cursor(revision uint64) *podconfigv1.Cursor {
	return &podconfigv1.Cursor{InstanceId: "life", Revision: revision, View: "v"}
}

// update is one op of file; with a zero revision more of it follows.
func update(revision uint64, op client.Op, uids ...string) *podconfigv1.WatchPodUpdatesResponse {
	u := &podconfigv1.PodUpdate{Op: op, Source: "file", SourceReady: true}
	for _, uid := range uids {
		u.Pods = append(u.Pods, &podconfigv1.Pod{
			Ref: &podconfigv1.PodRef{Uid: uid, Namespace: "default", Name: uid}, Source: "file", SpecDigest: "s", StatusDigest: "t",
			Content: content(&v1.Pod{ObjectMeta: metav1.ObjectMeta{UID: types.UID(uid), Namespace: "default", Name: uid}}),
		})
	}
	m := &podconfigv1.WatchPodUpdatesResponse{Event: &podconfigv1.WatchPodUpdatesResponse_Update{Update: u}, Continued: revision == 0}
	if revision > 0 {
		m.Cursor = cursor(revision)
	}
	return m
}

func content(p *v1.Pod) *podconfigv1.Pod_Protobuf {
	data, err := p.Marshal()
	if err != nil {
		panic(err)
	}
	return &podconfigv1.Pod_Protobuf{Protobuf: data}
}

func synced(revision uint64) *podconfigv1.WatchPodUpdatesResponse {
	return &podconfigv1.WatchPodUpdatesResponse{Event: &podconfigv1.WatchPodUpdatesResponse_Synced{Synced: &podconfigv1.Synced{
		Sources: []*podconfigv1.SourceReadiness{{Name: "file", Ready: true}},
	}}, Cursor: cursor(revision)}
}

// heartbeat is a heartbeat with the source file; with a zero revision it moves no cursor.
func heartbeat(revision uint64, ready bool) *podconfigv1.WatchPodUpdatesResponse {
	m := &podconfigv1.WatchPodUpdatesResponse{Event: &podconfigv1.WatchPodUpdatesResponse_Heartbeat{Heartbeat: &podconfigv1.Heartbeat{
		Sources: []*podconfigv1.SourceReadiness{{Name: "file", Ready: ready}},
	}}}
	if revision > 0 {
		m.Cursor = cursor(revision)
	}
	return m
}

var broken = status.Error(codes.Unavailable, "broken")

// TestG4DropsHalfARevision checks the consumer's part of G4: the stream breaks inside a revision, whose first half is
// dropped; the next stream resumes after the last whole one, and the revision is delivered once, as a whole.
func TestG4DropsHalfARevision(t *testing.T) {
	s := newScript(
		func(s serverStream) error {
			send(s, update(1, client.Add, "one"))
			send(s, synced(1))
			send(s, update(0, client.Remove, "one"))
			send(s, update(0, client.Add, "two"))
			return broken
		},
		func(s serverStream) error {
			send(s, update(0, client.Remove, "one"))
			send(s, update(0, client.Add, "two"))
			send(s, update(2, client.Add, "three"))
			send(s, synced(2))
			return broken
		},
	)
	p := testPlace(t)
	up(t, p, s)
	w := watch(t, p, client.Config{}, client.WatchOptions{})
	w.want("ADD file: one")
	w.want("synced")
	w.want("REMOVE file: one", "ADD file: two three")
	w.want("synced")
	wantRequest(t, <-s.requests, 0, "")
	wantRequest(t, <-s.requests, 1, "one")
	wantRequest(t, <-s.requests, 2, "three two")
}

// wantRequest checks from where, and with which pods, the client resumes.
func wantRequest(t *testing.T, req *podconfigv1.WatchPodUpdatesRequest, revision uint64, known string) {
	t.Helper()
	got := ""
	for _, k := range req.GetKnownPods() {
		got += " " + k.GetUid()
	}
	if known != "" {
		known = " " + known
	}
	if req.GetResumeAfter().GetRevision() != revision || got != known {
		t.Errorf("the client subscribes after revision %d, knowing%s; want after %d, knowing%s", req.GetResumeAfter().GetRevision(), got,
			revision, known)
	}
}

// TestUnknownOp: podconfig.v1 may grow. A consumer drops an unknown op and requests snapshots.
func TestUnknownOp(t *testing.T) {
	s := newScript(
		func(s serverStream) error {
			send(s, update(1, client.Add, "one"))
			send(s, update(2, 99, "two"))
			send(s, update(3, client.Add, "three"))
			send(s, synced(3))
			return broken
		},
		func(s serverStream) error {
			send(s, update(0, podconfigv1.PodOperation_POD_OPERATION_SET, "one", "two", "three"))
			send(s, synced(3))
			return broken
		},
	)
	p := testPlace(t)
	up(t, p, s)
	w := watch(t, p, client.Config{}, client.WatchOptions{})
	w.want("ADD file: one")
	w.want("ADD file: two three")
	w.want("synced")
	if mode := (<-s.requests).GetMode(); mode != podconfigv1.NotificationMode_NOTIFICATION_MODE_UNSPECIFIED {
		t.Errorf("the first stream is asked for in mode %v; want the default", mode)
	}
	req := <-s.requests
	if req.GetMode() != podconfigv1.NotificationMode_NOTIFICATION_MODE_SNAPSHOT {
		t.Errorf("the second stream is asked for in mode %v; want SNAPSHOT", req.GetMode())
	}
	wantRequest(t, req, 1, "one")
}

// TestWatchdog: a stream without a message for three intervals is ended, and opened again. Heartbeats keep a quiet
// stream alive, and a slow consumer doesn't end it. The test runs in a bubble with its own clock.
func TestWatchdog(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const interval = 10 * time.Second
		begin := time.Now()
		s := newScript(
			func(s serverStream) error {
				<-s.Context().Done()
				return nil
			},
			func(s serverStream) error {
				send(s, synced(1))
				for range 10 {
					time.Sleep(2 * interval)
					send(s, heartbeat(0, true))
				}
				send(s, update(2, client.Add, "one"))
				send(s, update(3, client.Add, "two"))
				<-s.Context().Done()
				return nil
			},
		)
		var marks []time.Duration
		done := func() { marks = append(marks, time.Since(begin).Truncate(time.Second)) }
		ctx, cancel := context.WithCancel(t.Context())
		c, stop := bubble(t, s, interval)
		err := c.Watch(ctx, client.WatchOptions{}, func(_ context.Context, e client.Event) error {
			if !e.Synced {
				time.Sleep(5 * interval)
			}
			if done(); words(e) == "ADD file: two" {
				cancel()
			}
			return nil
		})
		if !errors.Is(err, context.Canceled) {
			t.Errorf("Watch returns %v; want context.Canceled", err)
		}
		stop()
		want := []time.Duration{30 * time.Second, 280 * time.Second, 330 * time.Second}
		if len(marks) != 3 || marks[0] != want[0] || marks[1] != want[1] || marks[2] != want[2] {
			t.Errorf("synced, ADD and ADD were taken after %v; want %v: after three silent intervals, and none lost while the consumer was slow",
				marks, want)
		}
		if n := len(s.requests); n != 2 {
			t.Errorf("the client subscribed %d times; want 2", n)
		}
	})
}

// TestSetIsAppliedWithSynced: the removals of a SET at the start of a stream come only with its synced. If the stream
// breaks between the two, the cursor doesn't move.
func TestSetIsAppliedWithSynced(t *testing.T) {
	snapshot := update(0, podconfigv1.PodOperation_POD_OPERATION_SET, "one")
	s := newScript(
		func(s serverStream) error {
			send(s, update(1, client.Add, "one", "two"))
			send(s, synced(1))
			return broken
		},
		func(s serverStream) error {
			send(s, snapshot)
			return broken
		},
		func(s serverStream) error {
			send(s, snapshot)
			send(s, synced(5))
			return broken
		},
	)
	p := testPlace(t)
	up(t, p, s)
	w := watch(t, p, client.Config{}, client.WatchOptions{})
	w.want("ADD file: one two")
	w.want("synced")
	if e := w.want("REMOVE file: two"); e.Cursor.GetRevision() != 5 {
		t.Errorf("the SET's outcome has the cursor of revision %d; want 5, that of synced", e.Cursor.GetRevision())
	}
	w.want("synced")
	wantRequest(t, <-s.requests, 0, "")
	wantRequest(t, <-s.requests, 1, "one two")
	wantRequest(t, <-s.requests, 1, "one two")
	wantRequest(t, <-s.requests, 5, "one")
}
