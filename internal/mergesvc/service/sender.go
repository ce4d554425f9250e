package service

import (
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"k8s.io/utils/clock"

	"github.com/podstream/podstream/internal/mergesvc/wire"
	podconfigv1 "github.com/podstream/podstream/proto/podconfig/v1"
)

// sender hands messages to one stream's transport, and notes since when it has been trying to: the transport takes a message
// at once or, if the consumer doesn't read, when it does.
type sender struct {
	stream   grpc.ServerStream
	consumer *consumer
	clock    clock.PassiveClock
	// last is when the last message was given to the transport.
	last time.Time
}

func (s *sender) unit(u wire.Unit) error {
	for frame, err := range wire.Frames(u, s.consumer.encoding) {
		if err != nil {
			return status.Error(codes.Internal, err.Error())
		}
		if err := s.frame(frame); err != nil {
			return err
		}
	}
	return nil
}

func (s *sender) frame(f wire.Frame) error { return s.send(f) }

func (s *sender) message(m *podconfigv1.WatchPodUpdatesResponse) error { return s.send(m) }

func (s *sender) send(m any) error {
	s.last = s.clock.Now()
	s.consumer.sending.Store(s.last.UnixNano())
	err := sendFaulty(s.stream, m)
	s.consumer.sending.Store(0)
	s.consumer.parked.Store(false)
	return err
}
