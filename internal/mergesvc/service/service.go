package service

import (
	"log/slog"
	"sync"

	"k8s.io/utils/clock"

	"github.com/podstream/podstream/internal/mergesvc/history"
	"github.com/podstream/podstream/internal/mergesvc/merge"
	podconfigv1 "github.com/podstream/podstream/proto/podconfig/v1"
)

// Config says what a Server serves.
type Config struct {
	History *history.History
	// Sources is the state of the sources, for ListSources.
	Sources func() []merge.SourceState
	// Logger gets a line when a consumer comes, is caught up, and goes. Nil discards.
	Logger *slog.Logger
	// Clock paces the heartbeats. Nil means the real one.
	Clock clock.WithTicker
}

// Server implements podconfig.v1.PodConfigService.
type Server struct {
	podconfigv1.UnimplementedPodConfigServiceServer

	history *history.History
	sources func() []merge.SourceState
	log     *slog.Logger
	clock   clock.WithTicker
	lists   lists

	closeOnce sync.Once
	closing   chan struct{}
}

// New returns a Server. Close ends its streams.
func New(cfg Config) *Server {
	if cfg.Logger == nil {
		cfg.Logger = slog.New(slog.DiscardHandler)
	}
	if cfg.Clock == nil {
		cfg.Clock = clock.RealClock{}
	}
	return &Server{
		history: cfg.History, sources: cfg.Sources, log: cfg.Logger, clock: cfg.Clock, closing: make(chan struct{}),
	}
}

// Close ends every stream with UNAVAILABLE, so that consumers come back to whoever serves next. Revisions that a stream is
// sending are finished first.
func (s *Server) Close() {
	s.closeOnce.Do(func() { close(s.closing) })
}
