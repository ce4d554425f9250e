package podctl

import (
	"fmt"
	"strings"
	"sync/atomic"
	"testing"

	"google.golang.org/grpc"

	podconfigv1 "github.com/podstream/podstream/proto/podconfig/v1"
	podexecv1 "github.com/podstream/podstream/proto/podexec/v1"
)

// endlessStreams sends a million pods, objects or events, or as many as podctl takes. All are one revision, or each is one.
type endlessStreams struct {
	podconfigv1.UnimplementedPodConfigServiceServer
	oneRevision bool
	// name is the beginning of each name.
	name string
	sent atomic.Int64
}

// next returns the next name, and the number of the revision.
func (e *endlessStreams) next() (name string, revision uint64) {
	n := e.sent.Add(1)
	return fmt.Sprintf("%s%d", e.name, n), uint64(n) //nolint:gosec // It is positive.
}

func (e *endlessStreams) cursor(revision uint64) *podconfigv1.Cursor {
	if e.oneRevision {
		return nil
	}
	return &podconfigv1.Cursor{InstanceId: "i", Revision: revision}
}

func (e *endlessStreams) WatchPodUpdates(_ *podconfigv1.WatchPodUpdatesRequest, out grpc.ServerStreamingServer[podconfigv1.WatchPodUpdatesResponse]) error {
	for e.sent.Load() < aMillion {
		name, revision := e.next()
		pod := &podconfigv1.Pod{Ref: &podconfigv1.PodRef{Namespace: "default", Name: name, Uid: name}, Source: "file"}
		if err := out.Send(&podconfigv1.WatchPodUpdatesResponse{
			Event: &podconfigv1.WatchPodUpdatesResponse_Update{Update: &podconfigv1.PodUpdate{
				Op: podconfigv1.PodOperation_POD_OPERATION_ADD, Source: "file", Pods: []*podconfigv1.Pod{pod},
			}},
			Continued: e.oneRevision, Cursor: e.cursor(revision),
		}); err != nil {
			return err
		}
	}
	<-out.Context().Done()
	return nil
}

func (e *endlessStreams) WatchObjects(_ *podconfigv1.WatchObjectsRequest, out grpc.ServerStreamingServer[podconfigv1.WatchObjectsResponse]) error {
	for e.sent.Load() < aMillion {
		name, revision := e.next()
		object := &podconfigv1.Object{Ref: &podconfigv1.ObjectRef{
			Source: "file", Kind: podconfigv1.ObjectKind_OBJECT_KIND_CONFIG_MAP, Namespace: "default", Name: name,
		}}
		if err := out.Send(&podconfigv1.WatchObjectsResponse{
			Event: &podconfigv1.WatchObjectsResponse_Update{Update: &podconfigv1.ObjectUpdate{
				Op: podconfigv1.ObjectOperation_OBJECT_OPERATION_PUT, Objects: []*podconfigv1.Object{object},
			}},
			Continued: e.oneRevision, Cursor: e.cursor(revision),
		}); err != nil {
			return err
		}
	}
	<-out.Context().Done()
	return nil
}

// endlessEvents is podexecd's part.
type endlessEvents struct {
	podexecv1.UnimplementedPodExecServiceServer
	streams *endlessStreams
}

func (e *endlessEvents) WatchEvents(_ *podexecv1.WatchEventsRequest, out grpc.ServerStreamingServer[podexecv1.WatchEventsResponse]) error {
	for e.streams.sent.Load() < aMillion {
		name, _ := e.streams.next()
		event := &podexecv1.PodEvent{Ref: &podconfigv1.PodRef{Namespace: "default", Name: name, Uid: name}, Reason: "Endless"}
		if err := out.Send(&podexecv1.WatchEventsResponse{Event: event}); err != nil {
			return err
		}
	}
	return nil
}

// TestEndlessStreams: a daemon whose stream has pods, objects or events without end, in one revision or in many, gets an error
// after a bounded number, and isn't asked again.
func TestEndlessStreams(t *testing.T) {
	// As in TestEndlessLists.
	const items, mebibytes, ahead = 3000, 16, 100_000
	long := strings.Repeat("x", 1<<20)
	for name, tc := range map[string]struct {
		daemon *endlessStreams
		args   string
		want   string
		most   int64
	}{
		"a watch of one revision":       {&endlessStreams{oneRevision: true}, "watch", "a revision is too large", 16<<20/256 + ahead},
		"a watch of large ones":         {&endlessStreams{oneRevision: true, name: long}, "watch", "a revision is too large", 40},
		"a watch of many revisions":     {&endlessStreams{}, "watch", "more than 3000 items", items + ahead},
		"a watch of many large ones":    {&endlessStreams{name: long}, "watch", "or 16 MiB", 40},
		"objects in one revision":       {&endlessStreams{oneRevision: true}, "objects", "a revision is too large", 16<<20/256 + ahead},
		"objects in many revisions":     {&endlessStreams{}, "objects --request-timeout=0", "more than 3000 items", items + ahead},
		"a watch of objects":            {&endlessStreams{}, "objects -w", "more than 3000 items", items + ahead},
		"a watch of large objects":      {&endlessStreams{name: long}, "objects -w -o json", "or 16 MiB", 40},
		"events":                        {&endlessStreams{}, "events --request-timeout=0", "more than 3000 items", items + ahead},
		"large events":                  {&endlessStreams{name: long}, "events --request-timeout=0 -o json", "or 16 MiB", 40},
		"large objects in one revision": {&endlessStreams{oneRevision: true, name: long}, "objects -o json", "a revision is too large", 40},
	} {
		t.Run(name, func(t *testing.T) {
			n := newNode(t)
			n.maxItems, n.maxItemBytes = items, mebibytes<<20
			n.serve("podexecd", func(s *grpc.Server) { podexecv1.RegisterPodExecServiceServer(s, &endlessEvents{streams: tc.daemon}) })
			n.serve("podconfigd", func(s *grpc.Server) { podconfigv1.RegisterPodConfigServiceServer(s, tc.daemon) })
			code := n.run(t.Context(), strings.Fields(tc.args)...)
			if code != exitFailed || !strings.Contains(n.stderr.String(), tc.want) {
				t.Errorf("exit code %d; want %q in\n%.500s", code, tc.want, n.stderr)
			}
			if sent := tc.daemon.sent.Load(); sent > tc.most {
				t.Errorf("podctl took %d items; want at most %d", sent, tc.most)
			}
		})
	}
}
