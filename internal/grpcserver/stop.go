package grpcserver

import (
	"sync/atomic"
	"time"
)

const (
	// grace is how long calls that are under way may take once the server goes down.
	grace = 5 * time.Second
	// linger is how long connections without calls may take to hear that the server goes down. A client that is stopped never will.
	linger = 500 * time.Millisecond
)

// running is how many calls have their handlers running.
type running struct {
	calls atomic.Int64
	// idle gets a value when there are none any more. It may be an old one.
	idle chan struct{}
}

func newRunning() *running { return &running{idle: make(chan struct{}, 1)} }

func (r *running) tellIdle() {
	select {
	case r.idle <- struct{}{}:
	default:
	}
}

// stop tells callers to come back later (GOAWAY, and UNAVAILABLE on streams), and cuts off those that don't listen: after grace, or
// once there are no calls and nobody has gone for as long as linger.
func (s *Server) stop() {
	s.health.Shutdown()
	close(s.closing)
	if s.cfg.Closing != nil {
		s.cfg.Closing()
	}
	end := time.AfterFunc(grace, s.grpc.Stop)
	defer end.Stop()
	gone := make(chan struct{})
	go func() {
		defer close(gone)
		s.grpc.GracefulStop()
	}()
	s.cutIdle(gone)
	<-gone
}

// cutIdle returns when all are gone, or once it has cut off those that don't go.
func (s *Server) cutIdle(gone <-chan struct{}) {
	// A call of before may have told already that it was the last; whether it was is looked at below.
	s.running.tellIdle()
	for {
		select {
		case <-gone:
			return
		case <-s.running.idle:
		}
		for left := s.guard.left(); s.running.calls.Load() == 0; {
			select {
			case <-gone:
				return
			case <-time.After(linger):
			}
			before := left
			if left = s.guard.left(); left >= before && s.running.calls.Load() == 0 {
				s.grpc.Stop()
				return
			}
		}
	}
}
