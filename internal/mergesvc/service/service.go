package service

import (
	"context"
	"log/slog"
	"time"

	"go.opentelemetry.io/otel/trace"
	"go.opentelemetry.io/otel/trace/noop"
	"k8s.io/utils/clock"

	"github.com/podstream/podstream/internal/manifest"
	"github.com/podstream/podstream/internal/mergesvc/history"
	"github.com/podstream/podstream/internal/mergesvc/merge"
	"github.com/podstream/podstream/internal/mergesvc/metrics"
	"github.com/podstream/podstream/internal/mergesvc/objects"
	podconfigv1 "github.com/podstream/podstream/proto/podconfig/v1"
)

// Config says what a Server serves.
type Config struct {
	History *history.History
	// Sources is the state of the sources, for ListSources.
	Sources func() []merge.SourceState
	// Path is this podconfigd and then every one whose pods it relays, for Synced and Heartbeat; each message has the path of its
	// time. Nil: none.
	Path func() []*podconfigv1.RelayHop
	// SourcePath is the podconfigds that a source's pods come through, the nearest first, for ListSources. Nil: none.
	SourcePath func(source string) []*podconfigv1.RelayHop
	// Preview and Parse are for DiffManifests: what a source's origins would change, and what is in a manifest file. If nil,
	// it answers UNIMPLEMENTED.
	Preview func(source string, origins []*manifest.Origin, gone []string) (merge.Preview, error)
	Parse   func(origin string, data []byte) *manifest.Origin
	// Objects has the ConfigMaps and Secrets for WatchObjects. If nil, it answers UNIMPLEMENTED.
	Objects *objects.Hub
	// MaxConsumers is how many streams are served at once, those of pods and those of objects together. Zero means 10,000.
	MaxConsumers int
	// ParkAfter is after how long a consumer that doesn't read counts as parked. Zero means 5 s.
	ParkAfter time.Duration
	// Metrics may be nil.
	Metrics *metrics.Metrics
	// Tracer makes a span for each delivery of a revision whose trace is sampled. Nil makes none.
	Tracer trace.Tracer
	// Logger gets a line when a consumer comes, is caught up, is parked, and goes. Nil discards.
	Logger *slog.Logger
	// Clock paces the heartbeats. Nil means the real one.
	Clock clock.WithTicker
}

// Server implements podconfig.v1.PodConfigService.
type Server struct {
	podconfigv1.UnimplementedPodConfigServiceServer

	cfg       Config
	history   *history.History
	log       *slog.Logger
	clock     clock.WithTicker
	metrics   *metrics.Metrics
	consumers *consumers
	lists     lists

	// closing ends when the server closes.
	closing context.Context //nolint:containedctx // Its streams' contexts end with it.
	close   context.CancelFunc
}

// New returns a Server. Close ends its streams.
func New(cfg Config) *Server {
	if cfg.Logger == nil {
		cfg.Logger = slog.New(slog.DiscardHandler)
	}
	if cfg.Clock == nil {
		cfg.Clock = clock.RealClock{}
	}
	if cfg.Metrics == nil {
		cfg.Metrics = metrics.New()
	}
	if cfg.Tracer == nil {
		cfg.Tracer = noop.NewTracerProvider().Tracer("")
	}
	if cfg.Path == nil {
		cfg.Path = func() []*podconfigv1.RelayHop { return nil }
	}
	if cfg.SourcePath == nil {
		cfg.SourcePath = func(string) []*podconfigv1.RelayHop { return nil }
	}
	if cfg.MaxConsumers == 0 {
		cfg.MaxConsumers = 10_000
	}
	if cfg.ParkAfter == 0 {
		cfg.ParkAfter = 5 * time.Second
	}
	s := &Server{
		cfg: cfg, history: cfg.History, log: cfg.Logger, clock: cfg.Clock, metrics: cfg.Metrics,
		consumers: newConsumers(cfg),
	}
	s.closing, s.close = context.WithCancel(context.Background())
	return s
}

// Close ends every stream with UNAVAILABLE, so that consumers come back to whoever serves next. Revisions that a stream is
// sending are finished first.
func (s *Server) Close() { s.close() }

func (s *Server) isClosing() bool { return s.closing.Err() != nil }
