package service

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/podstream/podstream/internal/access"
	"github.com/podstream/podstream/internal/mergesvc"
	"github.com/podstream/podstream/internal/mergesvc/merge"
	"github.com/podstream/podstream/internal/mergesvc/mergetest"
	"github.com/podstream/podstream/internal/mergesvc/objects"
	podconfigv1 "github.com/podstream/podstream/proto/podconfig/v1"
)

// readStream counts the messages that its consumer has read. While stalled is open, the consumer reads nothing.
type readStream[M any] struct {
	grpc.ServerStream
	ctx     context.Context
	stalled chan struct{}
	read    int
}

func (s *readStream[M]) Context() context.Context { return s.ctx }

func (s *readStream[M]) Send(m *M) error { return s.SendMsg(m) }

func (s *readStream[M]) SendMsg(any) error {
	select {
	case <-s.stalled:
		s.read++
		return nil
	case <-s.ctx.Done():
		return s.ctx.Err()
	}
}

// narrow is a Server with one slot for streams.
func narrow() (*Server, *mergesvc.Hub) {
	hub := mergesvc.NewHub(mergesvc.Config{Sources: []merge.Source{{Name: "file"}}})
	s := New(Config{History: hub.History(), Objects: objects.New(objects.Config{History: hub.History()})})
	s.work.slots = 1
	return s, hub
}

func stalledConsumer(t *testing.T, identity string) (ctx context.Context, stalled chan struct{}) {
	return access.NewContext(t.Context(), access.Caller{Identity: identity, Role: access.Consumer}), make(chan struct{})
}

func reading(t *testing.T, identity string) (ctx context.Context, stalled chan struct{}) {
	ctx, stalled = stalledConsumer(t, identity)
	close(stalled)
	return ctx, stalled
}

// TestStreamsNeedSlots: while other streams hold the slots, a stream does nothing and doesn't read its request;
// root's streams are served. A stream that waits for its consumer holds no slot.
func TestStreamsNeedSlots(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, hub := narrow()
		// Streams of callers other than root are woken a little later, and slots pause.
		settle := func() {
			time.Sleep(time.Second)
			synctest.Wait()
		}
		watch := func(identity string, stalled bool) *readStream[podconfigv1.WatchPodUpdatesResponse] {
			stream := &readStream[podconfigv1.WatchPodUpdatesResponse]{}
			if stream.ctx, stream.stalled = reading(t, identity); stalled {
				stream.ctx, stream.stalled = stalledConsumer(t, identity)
			}
			go func() { _ = s.WatchPodUpdates(&podconfigv1.WatchPodUpdatesRequest{}, stream) }()
			settle()
			return stream
		}
		hub.Apply(mergetest.Set("file", 1, "a: web()"))
		watch("stalled", true)
		reader := watch("reader", false)
		if reader.read == 0 {
			t.Error("a stream gets nothing while another one waits for its consumer")
		}
		if err := s.work.acquire(t.Context(), "another"); err != nil {
			t.Fatal(err)
		}
		before := reader.read
		late, root := watch("late", false), watch("uid:0", false)
		objectsLate := &readStream[podconfigv1.WatchObjectsResponse]{}
		objectsLate.ctx, objectsLate.stalled = reading(t, "objects")
		go func() { _ = s.WatchObjects(&podconfigv1.WatchObjectsRequest{}, objectsLate) }()
		hub.Apply(mergetest.Set("file", 2, "a: web(image=2)"))
		settle()
		if reader.read != before || late.read != 0 || objectsLate.read != 0 {
			t.Errorf("without a slot a stream has sent %d messages, and new ones %d and %d; want none",
				reader.read-before, late.read, objectsLate.read)
		}
		if root.read == 0 {
			t.Error("root's stream gets nothing while others hold the slots")
		}
		s.work.release(0)
		settle()
		if reader.read == before || late.read == 0 || objectsLate.read == 0 {
			t.Errorf("with a slot a stream has sent %d messages, and new ones %d and %d; want some",
				reader.read-before, late.read, objectsLate.read)
		}
		s.Close()
		synctest.Wait()
	})
}

// TestListWaitsForItsTurn: a list's filter is read only when the list is admitted, because reading it may take
// as long as the list.
func TestListWaitsForItsTurn(t *testing.T) {
	s, _ := narrow()
	end, err := s.admission.take(t.Context(), access.Caller{Identity: "another"})
	if err != nil {
		t.Fatal(err)
	}
	defer end()
	ctx, cancel := context.WithCancelCause(access.NewContext(t.Context(), access.Caller{Identity: "lister", Role: access.Consumer}))
	cancel(errors.New("the caller is gone"))
	_, err = s.ListPods(ctx, &podconfigv1.ListPodsRequest{Filter: &podconfigv1.PodFilter{LabelSelector: "!!"}})
	if got := status.Code(err); got != codes.Canceled {
		t.Errorf("a list that has no turn and a filter that can't be read: %v; want that it was canceled", err)
	}
}
