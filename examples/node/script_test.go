package node_test

import (
	"net"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/structpb"

	podconfigv1 "github.com/podstream/podstream/proto/podconfig/v1"
)

// script is a podconfigd whose nth stream runs the nth function; those after the last one are silent.
type script struct {
	podconfigv1.UnimplementedPodConfigServiceServer

	streams  []func(serverStream) error
	next     atomic.Int64
	requests chan *podconfigv1.WatchPodUpdatesRequest
}

type (
	serverStream = grpc.ServerStreamingServer[podconfigv1.WatchPodUpdatesResponse]
	message      = *podconfigv1.WatchPodUpdatesResponse
)

var errBroken = status.Error(codes.Unavailable, "broken")

func newScript(streams ...func(serverStream) error) *script {
	return &script{streams: streams, requests: make(chan *podconfigv1.WatchPodUpdatesRequest, 100)}
}

// serve serves the script on a socket of its own until the test ends, or stop is called.
func (s *script) serve(t *testing.T) (endpoint string, stop func()) {
	t.Helper()
	// A test's own directory is too long for a socket.
	dir, err := os.MkdirTemp("", "ps")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	path := filepath.Join(dir, "s")
	listener, err := net.Listen("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	server := grpc.NewServer()
	podconfigv1.RegisterPodConfigServiceServer(server, s)
	ended := make(chan error, 1)
	go func() { ended <- server.Serve(listener) }()
	stop = sync.OnceFunc(func() {
		server.Stop()
		if err := <-ended; err != nil {
			t.Errorf("Serve ends with %v; want nil", err)
		}
	})
	t.Cleanup(stop)
	return "unix://" + path, stop
}

func (s *script) WatchPodUpdates(req *podconfigv1.WatchPodUpdatesRequest, stream serverStream) error {
	s.requests <- req
	if n := s.next.Add(1); int(n) <= len(s.streams) {
		return s.streams[n-1](stream)
	}
	return silence(stream)
}

func silence(s serverStream) error {
	<-s.Context().Done()
	return s.Context().Err()
}

// send sends the messages and ends the stream with err; nil leaves it open.
func send(s serverStream, err error, messages ...message) error {
	for _, m := range messages {
		if err := s.Send(m); err != nil {
			return err
		}
	}
	if err == nil {
		return silence(s)
	}
	return err
}

func op(op podconfigv1.PodOperation, source string, pods ...*podconfigv1.Pod) message {
	return &podconfigv1.WatchPodUpdatesResponse{Event: &podconfigv1.WatchPodUpdatesResponse_Update{
		Update: &podconfigv1.PodUpdate{Op: op, Source: source, SourceReady: true, Pods: pods},
	}}
}

// more marks that more of the revision follows.
func more(m message) message {
	m.Continued = true
	return m
}

// at is the last message of a revision.
func at(revision uint64, m message) message { return withCursor(revision, m) }

func withCursor(revision uint64, m message) message {
	m.Cursor = cursor(revision)
	return m
}

func cursor(revision uint64) *podconfigv1.Cursor {
	return &podconfigv1.Cursor{InstanceId: "life", Revision: revision, View: "v"}
}

func synced(revision uint64, ready ...string) message {
	return withCursor(revision, &podconfigv1.WatchPodUpdatesResponse{Event: &podconfigv1.WatchPodUpdatesResponse_Synced{
		Synced: &podconfigv1.Synced{Sources: readiness(ready)},
	}})
}

// syncedNotReady is synced while one source is ready and another isn't.
func syncedNotReady(revision uint64, ready, other string) message {
	m := synced(revision, ready)
	m.GetSynced().Sources = append(m.GetSynced().Sources, &podconfigv1.SourceReadiness{Name: other})
	return m
}

func heartbeat(ready ...string) message {
	return &podconfigv1.WatchPodUpdatesResponse{Event: &podconfigv1.WatchPodUpdatesResponse_Heartbeat{
		Heartbeat: &podconfigv1.Heartbeat{Sources: readiness(ready)},
	}}
}

func readiness(ready []string) []*podconfigv1.SourceReadiness {
	var out []*podconfigv1.SourceReadiness
	for _, name := range ready {
		out = append(out, &podconfigv1.SourceReadiness{Name: name, Ready: true})
	}
	return out
}

// reference is a pod as a REMOVE has it; its name is its UID.
func reference(source, uid string) *podconfigv1.Pod {
	return &podconfigv1.Pod{
		Ref: &podconfigv1.PodRef{Uid: uid, Namespace: "default", Name: uid}, Source: source, SpecDigest: "s", StatusDigest: "t",
	}
}

func pod(source, uid string) *podconfigv1.Pod {
	return withStruct(reference(source, uid), "spec", "nodeName", "node1")
}

// known is the pod as a request has it.
func known(source, uid string) *podconfigv1.KnownPod {
	return &podconfigv1.KnownPod{Uid: uid, Source: source, SpecDigest: "s", StatusDigest: "t", Namespace: "default", Name: uid}
}

func named(p *podconfigv1.Pod, name string) *podconfigv1.Pod {
	p.Ref.Name = name
	return p
}

func version(p *podconfigv1.Pod, spec, status string) *podconfigv1.Pod {
	p.SpecDigest, p.StatusDigest = spec, status
	return p
}

func deleting(p *podconfigv1.Pod) *podconfigv1.Pod {
	return withStruct(p, "metadata", "deletionTimestamp", "2026-01-02T03:04:05Z")
}

func ended(p *podconfigv1.Pod) *podconfigv1.Pod { return withStruct(p, "status", "phase", "Succeeded") }

// withStruct gives the pod's JSON one field of a part.
func withStruct(p *podconfigv1.Pod, part, field, value string) *podconfigv1.Pod {
	if p.GetJson() == nil {
		p.Content = &podconfigv1.Pod_Json{Json: &structpb.Struct{Fields: map[string]*structpb.Value{}}}
	}
	p.GetJson().Fields[part] = structpb.NewStructValue(&structpb.Struct{
		Fields: map[string]*structpb.Value{field: structpb.NewStringValue(value)},
	})
	return p
}
