package bench

import (
	"net"
	"sync/atomic"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/mem"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"
	v1 "k8s.io/api/core/v1"

	"github.com/podstream/podstream/internal/access"
	"github.com/podstream/podstream/internal/manifest"
	"github.com/podstream/podstream/internal/mergesvc/revision"
	"github.com/podstream/podstream/internal/mergesvc/wire"
	"github.com/podstream/podstream/internal/redact"
	podconfigv1 "github.com/podstream/podstream/proto/podconfig/v1"
	"github.com/podstream/podstream/test/bench/workload"
)

// baseline is the simplest server of the same method: each stream sends the initial messages, and then each
// message that is published. It doesn't merge, check or count anything, and can't resume.
type baseline struct {
	cfg     serverConfig
	initial []any
	// end is the place of the next message.
	end  atomic.Pointer[link]
	turn int
	// updates are the messages that are sent in turn, created when they are first needed.
	updates map[version]any
}

// link is one place in the chain of messages. Once ready is closed, message and next can be read.
type link struct {
	ready   chan struct{}
	message any
	next    *link
}

func newLink() *link { return &link{ready: make(chan struct{})} }

func newBaseline(cfg serverConfig) (*baseline, error) {
	s := &baseline{cfg: cfg, updates: map[version]any{}}
	s.end.Store(newLink())
	if err := s.fill(); err != nil {
		return nil, err
	}
	server := grpc.NewServer(grpc.ForceServerCodecV2(wire.NewCodec()))
	server.RegisterService(&grpc.ServiceDesc{
		ServiceName: podconfigv1.PodConfigService_ServiceDesc.ServiceName,
		Streams:     []grpc.StreamDesc{{StreamName: "WatchPodUpdates", ServerStreams: true, Handler: s.watch}},
	}, nil)
	listener, err := net.Listen("unix", cfg.Socket)
	if err != nil {
		return nil, err
	}
	// The server ends with the process.
	go func() { _ = server.Serve(listener) }()
	return s, nil
}

// fill creates the initial messages: the pods, at most as many in a message as the product sends, and a synced.
func (s *baseline) fill() error {
	var pods []*podconfigv1.Pod
	size := 0
	flush := func() error {
		m, err := s.sendable(&podconfigv1.WatchPodUpdatesResponse{Event: update(podconfigv1.PodOperation_POD_OPERATION_ADD, pods)})
		s.initial, pods, size = append(s.initial, m), nil, 0
		return err
	}
	for n := range s.cfg.Pods {
		p, err := s.pod(version{n, 1, s.cfg.Size})
		if err != nil {
			return err
		}
		if size > 0 && size+proto.Size(p) > wire.FragmentSize {
			if err := flush(); err != nil {
				return err
			}
		}
		pods, size = append(pods, p), size+proto.Size(p)
	}
	if err := flush(); err != nil {
		return err
	}
	synced, err := s.sendable(&podconfigv1.WatchPodUpdatesResponse{Event: &podconfigv1.WatchPodUpdatesResponse_Synced{Synced: &podconfigv1.Synced{}}})
	s.initial = append(s.initial, synced)
	return err
}

func (s *baseline) watch(_ any, stream grpc.ServerStream) error {
	if err := stream.RecvMsg(&podconfigv1.WatchPodUpdatesRequest{}); err != nil {
		return err
	}
	at := s.end.Load()
	for _, m := range s.initial {
		if err := stream.SendMsg(m); err != nil {
			return err
		}
	}
	for {
		select {
		case <-at.ready:
			if err := stream.SendMsg(at.message); err != nil {
				return err
			}
			at = at.next
		case <-stream.Context().Done():
			return stream.Context().Err()
		}
	}
}

func (s *baseline) publish(size int) {
	v := version{s.turn % s.cfg.Pods, s.turn / s.cfg.Pods % 2, size}
	s.turn++
	if s.updates[v] == nil {
		p, err := s.pod(v)
		if err == nil {
			s.updates[v], err = s.sendable(&podconfigv1.WatchPodUpdatesResponse{
				Event:  update(podconfigv1.PodOperation_POD_OPERATION_UPDATE, []*podconfigv1.Pod{p}),
				Cursor: &podconfigv1.Cursor{InstanceId: "6fb1c1f2-0000-4000-8000-000000000000", Revision: 1, View: "0123456789abcdef"},
			})
		}
		if err != nil {
			panic(err)
		}
	}
	here := s.end.Load()
	here.message, here.next = s.updates[v], newLink()
	s.end.Store(here.next)
	close(here.ready)
}

// sendable returns what the variant hands to gRPC: the message, or its bytes.
func (s *baseline) sendable(m proto.Message) (any, error) {
	if s.cfg.Variant == marshal {
		return m, nil
	}
	data, err := proto.Marshal(m)
	return wire.Frame{mem.SliceBuffer(data)}, err
}

// pod returns the pod as the product sends it.
func (s *baseline) pod(v version) (*podconfigv1.Pod, error) {
	p := workload.Origin(annotated(workload.Sized(v.pod, v.number, v.size))).Pods[0]
	r := &revision.Pod{Object: p.Pod, Source: workload.Source, SpecDigest: p.SpecDigest, StatusDigest: p.StatusDigest}
	return r.Message(revision.EncodingFor(redact.AudienceOf(access.Consumer), s.cfg.Format))
}

// annotated adds the annotations that the merge adds to every pod.
func annotated(p *v1.Pod) *v1.Pod {
	p.Annotations[manifest.SourceAnnotation] = workload.Source
	p.Annotations[manifest.SeenAnnotation] = time.Unix(0, 123456789).UTC().Format(time.RFC3339Nano)
	return p
}

func update(op podconfigv1.PodOperation, pods []*podconfigv1.Pod) *podconfigv1.WatchPodUpdatesResponse_Update {
	return &podconfigv1.WatchPodUpdatesResponse_Update{Update: &podconfigv1.PodUpdate{
		Op: op, Source: workload.Source, Pods: pods, SourceReady: true, ObservedTime: timestamppb.Now(),
	}}
}
