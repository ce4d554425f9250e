package stream

import (
	"context"
	"errors"
	"io"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/testing/protocmp"

	podconfigv1 "github.com/podstream/podstream/proto/podconfig/v1"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

type message = podconfigv1.WatchPodUpdatesResponse

// fake is a service with one stream, which sends messages, a nil one being an interval's pause, and ends with err.
// With a nil err it stays open until its context ends.
type fake struct {
	podconfigv1.PodConfigServiceClient
	messages []*message
	err      error
	refuse   error
	request  *podconfigv1.WatchPodUpdatesRequest
}

const interval = 10 * time.Second

func (f *fake) WatchPodUpdates(ctx context.Context, req *podconfigv1.WatchPodUpdatesRequest, _ ...grpc.CallOption) (grpc.ServerStreamingClient[message], error) {
	f.request = req
	return &fakeMessages{fake: f, ctx: ctx}, f.refuse
}

type fakeMessages struct {
	grpc.ClientStream
	fake *fake
	ctx  context.Context
}

func (m *fakeMessages) Recv() (*message, error) {
	if len(m.fake.messages) == 0 {
		if m.fake.err == nil {
			<-m.ctx.Done()
			return nil, status.FromContextError(m.ctx.Err()).Err()
		}
		return nil, m.fake.err
	}
	next := m.fake.messages[0]
	m.fake.messages = m.fake.messages[1:]
	if next != nil {
		return proto.CloneOf(next), nil
	}
	select {
	case <-time.After(interval):
		return m.Recv()
	case <-m.ctx.Done():
		return nil, status.FromContextError(m.ctx.Err()).Err()
	}
}

// op is a message; with a zero revision more follow.
func op(revision uint64, u *podconfigv1.PodUpdate) *message {
	m := &message{Event: &podconfigv1.WatchPodUpdatesResponse_Update{Update: u}, Continued: revision == 0}
	if revision > 0 {
		m.Cursor = at(revision)
	}
	return m
}

func adding(texts ...string) *podconfigv1.PodUpdate { return update(opAdd, "file", true, texts...) }

func beat(revision uint64, moves bool) *message {
	m := &message{Event: &podconfigv1.WatchPodUpdatesResponse_Heartbeat{Heartbeat: &podconfigv1.Heartbeat{
		Revision: revision, Sources: sources("file"),
	}}}
	if moves {
		m.Cursor = at(revision)
	}
	return m
}

func syncedMessage(revision uint64) *message {
	m := &message{Event: &podconfigv1.WatchPodUpdatesResponse_Synced{Synced: &podconfigv1.Synced{Sources: sources("file", "-api")}}}
	if revision > 0 {
		m.Cursor = at(revision)
	}
	return m
}

// TestNext: the messages that make one revision.
func TestNext(t *testing.T) {
	a, b, c := adding("a"), adding("b"), adding("c")
	snapshot := func(texts ...string) *podconfigv1.PodUpdate { return setOf(true, pods("file", texts...)) }
	hasBeat := func(revision uint64, moves bool, updates ...*podconfigv1.PodUpdate) *Revision {
		m := beat(revision, moves)
		return &Revision{Updates: updates, Heartbeat: m.GetHeartbeat(), Cursor: m.GetCursor()}
	}
	hasSynced := func(revision uint64, updates ...*podconfigv1.PodUpdate) *Revision {
		m := syncedMessage(revision)
		return &Revision{Updates: updates, Synced: m.GetSynced(), Cursor: m.GetCursor()}
	}
	upTo := func(revision uint64, updates ...*podconfigv1.PodUpdate) *Revision {
		return &Revision{Updates: updates, Cursor: at(revision)}
	}
	for _, tc := range []struct {
		name     string
		messages []*message
		want     []*Revision
	}{
		{"one message each", []*message{op(1, a), op(2, b)}, []*Revision{upTo(1, a), upTo(2, b)}},
		{"several ops", []*message{op(0, update(opRemove, "file", true, "z")), op(1, a)},
			[]*Revision{upTo(1, update(opRemove, "file", true, "z"), a)}},
		{"fragments of one op", []*message{op(0, a), op(0, b), op(1, c)}, []*Revision{upTo(1, adding("a", "b", "c"))}},
		{"fragments of a SET, some of them empty", []*message{op(0, snapshot()), op(0, snapshot("a")), op(1, snapshot())},
			[]*Revision{upTo(1, snapshot("a"))}},
		{"two ops aren't fragments", []*message{op(0, a), op(1, update(opUpdate, "file", true, "b"))},
			[]*Revision{upTo(1, a, update(opUpdate, "file", true, "b"))}},
		{"nor those of two sources", []*message{op(0, a), op(1, update(opAdd, "api", true, "b"))},
			[]*Revision{upTo(1, a, update(opAdd, "api", true, "b"))}},
		{"nor a source becoming ready", []*message{op(0, a), op(0, adding()), op(1, b)}, []*Revision{upTo(1, a, adding(), b)}},
		{"nor one after the other", []*message{op(0, update(opAdd, "file", false, "a")), op(1, b)},
			[]*Revision{upTo(1, update(opAdd, "file", false, "a"), b)}},
		{"nor those of two revisions", []*message{op(1, a), op(2, b)}, []*Revision{upTo(1, a), upTo(2, b)}},
		{"a half revision is dropped (G4)", []*message{op(1, a), op(0, b)}, []*Revision{upTo(1, a)}},
		{"synced ends the initial state", []*message{op(0, a), syncedMessage(1)}, []*Revision{hasSynced(1, a)}},
		{"also where nothing has ever happened", []*message{syncedMessage(0)}, []*Revision{hasSynced(0)}},
		{"heartbeats", []*message{beat(1, false), beat(3, true)}, []*Revision{hasBeat(1, false), hasBeat(3, true)}},
		{"a heartbeat amid a revision", []*message{op(0, a), beat(0, false), op(1, b)}, []*Revision{upTo(1, adding("a", "b"))}},
		{"a heartbeat that ends one", []*message{op(0, a), beat(1, true)}, []*Revision{hasBeat(1, true, a)}},
		{"a cursor that isn't the end", []*message{{Event: op(0, a).Event, Continued: true, Cursor: at(1)}, op(1, b)},
			[]*Revision{upTo(1, adding("a", "b"))}},
		{"an event that isn't known", []*message{op(0, a), {}, {Cursor: at(1)}, {Cursor: at(2)}}, []*Revision{upTo(1, a), upTo(2)}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			s := open(t, Config{API: &fake{messages: tc.messages, err: io.EOF}})
			for _, want := range tc.want {
				got, err := s.Next()
				if err != nil {
					t.Fatalf("Next fails with %v", err)
				}
				if diff := cmp.Diff(want, got, protocmp.Transform()); diff != "" {
					t.Fatalf("the revision (-want +got):\n%s", diff)
				}
			}
			if got, err := s.Next(); !errors.Is(err, ErrEnded) {
				t.Errorf("at the end Next returns %+v and %v; want ErrEnded", got, err)
			}
		})
	}
}

func open(t *testing.T, cfg Config) *Stream {
	t.Helper()
	s, err := Open(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Close)
	return s
}

// TestEnds: the errors by which a Stream ends.
func TestEnds(t *testing.T) {
	broken := status.Error(codes.Unavailable, "broken")
	for _, tc := range []struct {
		name string
		fake *fake
		want error
	}{
		{"in good order", &fake{err: io.EOF}, ErrEnded},
		{"broken", &fake{err: broken}, broken},
		{"an op that isn't known", &fake{messages: []*message{op(1, update(99, "file", true, "a"))}}, ErrUnknownOp},
		{"an op that isn't one", &fake{messages: []*message{op(1, update(0, "file", true, "a"))}}, ErrUnknownOp},
	} {
		if got, err := open(t, Config{API: tc.fake}).Next(); !errors.Is(err, tc.want) {
			t.Errorf("%s: Next returns %+v and %v; want %v", tc.name, got, err, tc.want)
		}
	}
	if s, err := Open(t.Context(), Config{API: &fake{refuse: broken}}); !errors.Is(err, broken) || s != nil {
		t.Errorf("Open returns %v and %v; want the call's error", s, err)
	}
	ctx, cancel := context.WithCancelCause(t.Context())
	own := errors.New("its own reason")
	s, err := Open(ctx, Config{API: &fake{}})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	cancel(own)
	if _, err := s.Next(); !errors.Is(err, own) {
		t.Errorf("after the context ended Next fails with %v; want the context's cause", err)
	}
	s = open(t, Config{API: &fake{}})
	s.Close()
	if _, err := s.Next(); !errors.Is(err, context.Canceled) {
		t.Errorf("after Close Next fails with %v; want context.Canceled", err)
	}
}

// TestRequestReachesTheService: the request is Config's, or the empty one if that is nil.
func TestRequestReachesTheService(t *testing.T) {
	want := &podconfigv1.WatchPodUpdatesRequest{Consumer: "c"}
	f := &fake{}
	open(t, Config{API: f, Request: want})
	if f.request != want {
		t.Errorf("asked for %v; want %v", f.request, want)
	}
	open(t, Config{API: f})
	if f.request == nil {
		t.Error("a nil request was sent; want the empty one")
	}
}

// TestSilence: a silent stream is ended; heartbeats and slow fragments keep it, and a slow consumer doesn't end it.
func TestSilence(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		begin := time.Now()
		s := open(t, Config{Silence: 3 * interval, API: &fake{messages: []*message{
			nil, nil, beat(0, false), nil, nil, op(0, adding("a")), nil, nil, op(1, adding("b")), nil, nil, nil, nil,
		}}})
		for range 2 {
			if _, err := s.Next(); err != nil {
				t.Fatalf("after %v Next fails with %v", time.Since(begin), err)
			}
			time.Sleep(100 * interval)
		}
		_, err := s.Next()
		if took := time.Since(begin); !errors.Is(err, ErrSilent) || took != 209*interval {
			t.Errorf("after %v Next fails with %v; want ErrSilent after %v", took, err, 209*interval)
		}
	})
}

// TestSilentCall: a call that waits, for a connection or for a server that doesn't read, is given up as a silent stream is.
func TestSilentCall(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		begin := time.Now()
		_, err := Open(t.Context(), Config{API: waiting{}, Silence: 3 * interval})
		if took := time.Since(begin); !errors.Is(err, ErrSilent) || took != 3*interval {
			t.Errorf("after %v Open fails with %v; want ErrSilent after %v", took, err, 3*interval)
		}
	})
}

// waiting is a service whose calls wait until their context ends.
type waiting struct {
	podconfigv1.PodConfigServiceClient
}

func (waiting) WatchPodUpdates(ctx context.Context, _ *podconfigv1.WatchPodUpdatesRequest, _ ...grpc.CallOption) (grpc.ServerStreamingClient[message], error) {
	<-ctx.Done()
	return nil, status.FromContextError(ctx.Err()).Err()
}
