package recording

import (
	"context"
	"fmt"
	"math"
	"sync"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"k8s.io/utils/clock"

	podconfigv1 "github.com/podstream/podstream/proto/podconfig/v1"
)

// The heartbeat intervals of podconfig.v1.
const (
	defaultHeartbeat = 30 * time.Second
	minHeartbeat     = time.Second
)

// ServerConfig configures a Server.
type ServerConfig struct {
	// Path is the recording.
	Path string
	// Speed is the factor by which the replay is faster than the recording. Zero means as fast as each consumer
	// reads.
	Speed float64
	// Once ends a stream without an error after the last message. Otherwise it stays open.
	Once bool
	// Played is called once, when the last message has been sent to a consumer. May be nil.
	Played func()
	// Clock paces the messages. Nil means the system clock.
	Clock clock.Clock
}

// Server serves podconfig.v1 from a recording. Each consumer gets the recorded messages, regardless of its mode and
// filter. Between and after them it gets heartbeats at the requested interval.
//
// A consumer that resumes with a cursor of the recording gets `synced`, if the recording has it up to that cursor, and
// the following messages. A consumer with any other cursor gets all messages from the start. Unlike podconfigd, the
// Server doesn't compare its known pods with the recording.
type Server struct {
	podconfigv1.UnimplementedPodConfigServiceServer

	cfg     ServerConfig
	summary Summary

	closeOnce, playedOnce sync.Once
	closing               chan struct{}
}

// NewServer reads the whole recording once, so that errors in it are returned before a consumer is served.
func NewServer(cfg ServerConfig) (*Server, error) {
	if cfg.Speed < 0 || math.IsNaN(cfg.Speed) || math.IsInf(cfg.Speed, 0) {
		return nil, fmt.Errorf("the speed %v is no number from 0", cfg.Speed)
	}
	if cfg.Played == nil {
		cfg.Played = func() {}
	}
	if cfg.Clock == nil {
		cfg.Clock = clock.RealClock{}
	}
	summary, err := Summarize(cfg.Path)
	if err != nil {
		return nil, err
	}
	if summary.Messages == 0 {
		return nil, fmt.Errorf("%s: nothing to play: the recording has no complete revision", cfg.Path)
	}
	return &Server{cfg: cfg, summary: summary, closing: make(chan struct{})}, nil
}

// Summary describes the recording.
func (s *Server) Summary() Summary { return s.summary }

// Close ends all present and later streams with UNAVAILABLE.
func (s *Server) Close() { s.closeOnce.Do(func() { close(s.closing) }) }

// WatchPodUpdates implements podconfigv1.PodConfigServiceServer. Errors: FAILED_PRECONDITION if the pods were recorded
// in a format other than the requested one, INVALID_ARGUMENT for an invalid heartbeat_interval, DATA_LOSS if the file
// can't be read any more, UNAVAILABLE once the Server is closed.
func (s *Server) WatchPodUpdates(
	req *podconfigv1.WatchPodUpdatesRequest, stream grpc.ServerStreamingServer[podconfigv1.WatchPodUpdatesResponse],
) error {
	if want, have := formatOf(req), s.summary.Header.Format(); want != have {
		return status.Errorf(codes.FailedPrecondition,
			"this is a replay of a recording whose pods are in %s; they can't be converted to %s", have, want)
	}
	heartbeat, err := heartbeatInterval(req)
	if err != nil {
		return err
	}
	at, err := locate(s.cfg.Path, s.summary.Messages, req.GetResumeAfter())
	if err != nil {
		return unreadable(err)
	}
	reader, err := openAt(s.cfg.Path, at)
	if err != nil {
		return unreadable(err)
	}
	defer func() { _ = reader.Close() }() // It was only read.
	p := &player{
		clock: s.cfg.Clock, speed: s.cfg.Speed, heartbeat: heartbeat, closing: s.closing,
		stream: stream, reader: reader, place: at, messages: s.summary.Messages,
	}
	if err := p.play(); err != nil {
		return err
	}
	s.playedOnce.Do(s.cfg.Played)
	if s.cfg.Once {
		return nil
	}
	return p.wait(time.Time{})
}

func heartbeatInterval(req *podconfigv1.WatchPodUpdatesRequest) (time.Duration, error) {
	d := req.GetHeartbeatInterval()
	switch {
	case d == nil:
		return defaultHeartbeat, nil
	case d.CheckValid() != nil || d.AsDuration() < 0:
		return 0, status.Errorf(codes.InvalidArgument, "heartbeat_interval: %v isn't a length of time", d)
	case d.AsDuration() == 0:
		return defaultHeartbeat, nil
	}
	return max(d.AsDuration(), minHeartbeat), nil
}

// unreadable is the error for a file that was valid when the Server was created.
func unreadable(err error) error {
	return status.Errorf(codes.DataLoss, "the recording can't be read any more: %v", err)
}

func unimplemented() error {
	return status.Error(codes.Unimplemented, "this is a replay of a recording: only WatchPodUpdates is served")
}

// ListPods implements podconfigv1.PodConfigServiceServer. It returns UNIMPLEMENTED, as all methods except
// WatchPodUpdates do.
func (*Server) ListPods(context.Context, *podconfigv1.ListPodsRequest) (*podconfigv1.ListPodsResponse, error) {
	return nil, unimplemented()
}

// GetPod implements podconfigv1.PodConfigServiceServer.
func (*Server) GetPod(context.Context, *podconfigv1.GetPodRequest) (*podconfigv1.GetPodResponse, error) {
	return nil, unimplemented()
}

// ListSources implements podconfigv1.PodConfigServiceServer.
func (*Server) ListSources(context.Context, *podconfigv1.ListSourcesRequest) (*podconfigv1.ListSourcesResponse, error) {
	return nil, unimplemented()
}

// ListConsumers implements podconfigv1.PodConfigServiceServer.
func (*Server) ListConsumers(context.Context, *podconfigv1.ListConsumersRequest) (*podconfigv1.ListConsumersResponse, error) {
	return nil, unimplemented()
}

// ReportApplied implements podconfigv1.PodConfigServiceServer.
func (*Server) ReportApplied(context.Context, *podconfigv1.ReportAppliedRequest) (*podconfigv1.ReportAppliedResponse, error) {
	return nil, unimplemented()
}

// WatchObjects implements podconfigv1.PodConfigServiceServer.
func (*Server) WatchObjects(*podconfigv1.WatchObjectsRequest, grpc.ServerStreamingServer[podconfigv1.WatchObjectsResponse]) error {
	return unimplemented()
}

// DiffManifests implements podconfigv1.PodConfigServiceServer.
func (*Server) DiffManifests(context.Context, *podconfigv1.DiffManifestsRequest) (*podconfigv1.DiffManifestsResponse, error) {
	return nil, unimplemented()
}
