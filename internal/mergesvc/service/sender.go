package service

import (
	"time"

	"google.golang.org/grpc"
	"k8s.io/utils/clock"

	"github.com/podstream/podstream/internal/mergesvc/wire"
	podconfigv1 "github.com/podstream/podstream/proto/podconfig/v1"
)

// sender sends messages to one stream's transport, and records since when a message waits: the transport takes a
// message at once or, if the consumer doesn't read, when it reads again.
type sender struct {
	stream   grpc.ServerStream
	consumer *consumer
	// slot isn't held while the transport doesn't take a message.
	slot  *workSlot
	clock clock.PassiveClock
	// last is when the last message was sent.
	last time.Time
}

func (s *sender) frame(f wire.Frame) error { return s.send(f) }

func (s *sender) message(m *podconfigv1.WatchPodUpdatesResponse) error { return s.send(m) }

func (s *sender) send(m any) error {
	s.slot.release()
	s.last = s.clock.Now()
	s.consumer.sending.Store(s.last.UnixNano())
	err := sendFaulty(s.stream, m)
	s.consumer.sending.Store(0)
	s.consumer.parked.Store(false)
	if err != nil {
		return err
	}
	return s.slot.hold()
}
