package grpcserver

import (
	"sync/atomic"
	"time"
)

const (
	// grace is the time limit for calls under way once the server stops.
	grace = 5 * time.Second
	// linger is the time limit for connections without calls to react to the stop. A stopped client process never
	// does.
	linger = 500 * time.Millisecond
)

// running counts the calls whose handlers run.
type running struct {
	calls atomic.Int64
	// idle receives a value when there are none any more. The value may be outdated.
	idle chan struct{}
}

func newRunning() *running { return &running{idle: make(chan struct{}, 1)} }

func (r *running) signalIdle() {
	select {
	case r.idle <- struct{}{}:
	default:
	}
}

// stop sends GOAWAY, and UNAVAILABLE on streams, and closes the connections that remain: after grace, or once there
// are no calls and no connection has closed for as long as linger.
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

// cutIdle returns when all connections have closed, or once it has closed those that remain.
func (s *Server) cutIdle(gone <-chan struct{}) {
	// An earlier call may have sent the value; the state is checked below.
	s.running.signalIdle()
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
