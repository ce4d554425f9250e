package bench

import (
	"net"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/mem"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/podstream/podstream/internal/mergesvc/revision"
	"github.com/podstream/podstream/internal/mergesvc/wire"
	podconfigv1 "github.com/podstream/podstream/proto/podconfig/v1"
	"github.com/podstream/podstream/test/bench/workload"
)

// baseline is the least that a server of the same method can be: each stream sends the messages there are at first, and then
// each that is published. It merges nothing, checks and counts nothing, and can't resume.
type baseline struct {
	cfg     serverConfig
	initial []any
	last    *link
	turn    int
	// updates are the messages that take turns, two of each size.
	updates map[version]any
}

// link is one place in the chain of messages. Once ready is closed, message and next are there to be read.
type link struct {
	ready   chan struct{}
	message any
	next    *link
}

func newLink() *link { return &link{ready: make(chan struct{})} }

func newBaseline(cfg serverConfig) (*baseline, error) {
	s := &baseline{cfg: cfg, last: newLink(), updates: map[version]any{}}
	var pods []*podconfigv1.Pod
	size := 0
	flush := func() {
		s.initial = append(s.initial, s.ready(update(podconfigv1.PodOperation_POD_OPERATION_ADD, pods)))
		pods, size = nil, 0
	}
	for n := range cfg.Pods {
		p := message(workload.Sized(n, 1, cfg.Size), cfg.Format)
		if next := proto.Size(p); size > 0 && size+next > wire.FragmentSize {
			flush()
		}
		pods, size = append(pods, p), size+proto.Size(p)
	}
	flush()
	s.initial = append(s.initial, s.ready(&podconfigv1.WatchPodUpdatesResponse{
		Event: &podconfigv1.WatchPodUpdatesResponse_Synced{Synced: &podconfigv1.Synced{}},
	}))
	server := grpc.NewServer(grpc.ForceServerCodecV2(wire.NewCodec()))
	server.RegisterService(&grpc.ServiceDesc{
		ServiceName: podconfigv1.PodConfigService_ServiceDesc.ServiceName,
		Streams:     []grpc.StreamDesc{{StreamName: "WatchPodUpdates", ServerStreams: true, Handler: s.watch}},
	}, nil)
	listener, err := net.Listen("unix", cfg.Socket)
	if err != nil {
		return nil, err
	}
	// It ends with the process.
	first := s.last
	s.initial = append(s.initial, first)
	go func() { _ = server.Serve(listener) }()
	return s, nil
}
