package relay

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/podstream/podstream/internal/grpcserver"
	"github.com/podstream/podstream/internal/mergesvc/mergetest"
	podconfigv1 "github.com/podstream/podstream/proto/podconfig/v1"
)

type (
	podStream    = grpc.ServerStreamingServer[podconfigv1.WatchPodUpdatesResponse]
	objectStream = grpc.ServerStreamingServer[podconfigv1.WatchObjectsResponse]
	message      = podconfigv1.WatchPodUpdatesResponse
	objects      = podconfigv1.WatchObjectsResponse
)

// script is an upstream with scripted streams: stream number n runs function number n, and then waits for its
// end unless that returns an error.
type script struct {
	podconfigv1.UnimplementedPodConfigServiceServer

	pods    chan func(podStream) error
	objects chan func(objectStream) error
	// requests and wishes are the requests of the streams.
	requests chan *podconfigv1.WatchPodUpdatesRequest
	wishes   chan *podconfigv1.WatchObjectsRequest
	// reported are the answers to the relay's next calls of ReportApplied. Without an entry, the answer is OK.
	reported chan error
	closing  chan struct{}
	// sources answers ListSources. If it is nil, ListSources isn't implemented.
	sources func(context.Context) (*podconfigv1.ListSourcesResponse, error)
}

func (s *script) ListSources(ctx context.Context, req *podconfigv1.ListSourcesRequest) (*podconfigv1.ListSourcesResponse, error) {
	if s.sources == nil {
		return s.UnimplementedPodConfigServiceServer.ListSources(ctx, req)
	}
	return s.sources(ctx)
}

// scripted serves a script until the test ends.
func scripted(t *testing.T) (s *script, endpoint string) {
	t.Helper()
	s = &script{
		pods: make(chan func(podStream) error, 10), objects: make(chan func(objectStream) error, 10),
		requests: make(chan *podconfigv1.WatchPodUpdatesRequest, 1000), wishes: make(chan *podconfigv1.WatchObjectsRequest, 1000),
		reported: make(chan error, 10), closing: make(chan struct{}),
	}
	endpoint = socket(t)
	listeners, err := grpcserver.Listen([]string{endpoint})
	if err != nil {
		t.Fatal(err)
	}
	server := grpcserver.New(grpcserver.Config{
		Register: func(r grpc.ServiceRegistrar) { podconfigv1.RegisterPodConfigServiceServer(r, s) }, Closing: func() { close(s.closing) },
	})
	inBackground(t, func(ctx context.Context) error { return server.Serve(ctx, listeners) })
	return s, endpoint
}

func (s *script) WatchPodUpdates(req *podconfigv1.WatchPodUpdatesRequest, stream podStream) error {
	s.requests <- req
	return play(s, s.pods, stream)
}

func (s *script) WatchObjects(req *podconfigv1.WatchObjectsRequest, stream objectStream) error {
	s.wishes <- req
	return play(s, s.objects, stream)
}

func (s *script) ReportApplied(context.Context, *podconfigv1.ReportAppliedRequest) (*podconfigv1.ReportAppliedResponse, error) {
	select {
	case err := <-s.reported:
		return nil, err
	default:
		return &podconfigv1.ReportAppliedResponse{}, nil
	}
}

func play[S grpc.ServerStream](s *script, scenes chan func(S) error, stream S) error {
	select {
	case scene := <-scenes:
		if err := scene(stream); err != nil {
			return err
		}
	case <-s.closing:
		return status.Error(codes.Unavailable, "the script is over")
	case <-stream.Context().Done():
		return nil
	}
	select {
	case <-s.closing:
	case <-stream.Context().Done():
	}
	return status.Error(codes.Unavailable, "the script is over")
}

var errBroken = status.Error(codes.Unavailable, "broken")

// saying returns a stream that sends messages and then ends with err; if err is nil, it stays open.
func saying(err error, messages ...*message) func(podStream) error {
	return func(s podStream) error {
		for _, m := range messages {
			// If the relay has already ended, its sets show that.
			_ = s.Send(m)
		}
		return err
	}
}

// wirePod returns a pod of the source file in mergetest's notation, as in a message.
func wirePod(text string) *podconfigv1.Pod {
	if !strings.Contains(text, "node=") {
		text = strings.Replace(strings.Replace(text, "(", "(node=own-node,", 1), ",)", ")", 1)
	}
	p := mergetest.Set("file", 0, "o: "+text).Origins[0].Pods[0]
	data, err := p.Marshal()
	if err != nil {
		panic(err)
	}
	return &podconfigv1.Pod{
		Ref:    &podconfigv1.PodRef{Uid: string(p.UID), Namespace: p.Namespace, Name: p.Name},
		Source: "file", SpecDigest: p.SpecDigest, StatusDigest: p.StatusDigest, Content: &podconfigv1.Pod_Protobuf{Protobuf: data},
	}
}

// op returns an update of the source file. A zero revision means that more follows.
func op(revision uint64, op podconfigv1.PodOperation, pods ...*podconfigv1.Pod) *message {
	m := &message{Event: &podconfigv1.WatchPodUpdatesResponse_Update{Update: &podconfigv1.PodUpdate{
		Op: op, Source: "file", Pods: pods, SourceReady: true,
	}}, Continued: revision == 0}
	if revision > 0 {
		m.Cursor = cursor(revision)
	}
	return m
}

func cursor(revision uint64) *podconfigv1.Cursor {
	return &podconfigv1.Cursor{InstanceId: "life", Revision: revision, View: "v"}
}

const (
	add = podconfigv1.PodOperation_POD_OPERATION_ADD
	set = podconfigv1.PodOperation_POD_OPERATION_SET
)

func ready(names ...string) []*podconfigv1.SourceReadiness {
	var out []*podconfigv1.SourceReadiness
	for _, name := range names {
		out = append(out, &podconfigv1.SourceReadiness{Name: strings.TrimPrefix(name, "-"), Ready: !strings.HasPrefix(name, "-")})
	}
	return out
}

func synced(revision uint64, path ...*podconfigv1.RelayHop) *message {
	return &message{Event: &podconfigv1.WatchPodUpdatesResponse_Synced{Synced: &podconfigv1.Synced{
		Sources: ready("file"), Path: path,
	}}, Cursor: cursor(revision)}
}

func heartbeat(path ...*podconfigv1.RelayHop) *message {
	return &message{Event: &podconfigv1.WatchPodUpdatesResponse_Heartbeat{Heartbeat: &podconfigv1.Heartbeat{Sources: ready("file"), Path: path}}}
}

// changed returns a pod after change.
func changed(text string, change func(*podconfigv1.Pod)) *podconfigv1.Pod {
	p := wirePod(text)
	change(p)
	return p
}

// beatOf returns a heartbeat of ready sources, and opOf a revision in which a source becomes ready.
func beatOf(names ...string) *message {
	m := heartbeat()
	m.GetHeartbeat().Sources = ready(names...)
	return m
}

func opOf(source string) *message {
	m := op(2, add)
	m.GetUpdate().Source = source
	return m
}

func opsOf(sources ...string) []*message {
	var out []*message
	for _, s := range sources {
		out = append(out, opOf(s))
	}
	return out
}

// many returns this many names.
func many(n int) []string {
	out := make([]string, n)
	for i := range out {
		out[i] = fmt.Sprintf("s%d", i)
	}
	return out
}
