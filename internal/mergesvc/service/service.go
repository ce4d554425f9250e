package service

import (
	"context"
	"log/slog"
	"sync/atomic"
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

// Config is the configuration of a Server.
type Config struct {
	// Node is the name of podconfigd's node, and Version how it was built, for GetVersion.
	Node, Version string
	History       *history.History
	// Path is this podconfigd and then each podconfigd whose pods it relays, for Synced and Heartbeat. It is called
	// for each message. Nil: none.
	Sources func() []merge.SourceState
	// SourcePath returns the podconfigds that a source's pods come through, the nearest first, for ListSources. Nil:
	// none.
	Path func() []*podconfigv1.RelayHop
	// Preview and Parse are for DiffManifests: see mergesvc.Hub.Preview and manifest.Parse. If nil, it answers
	// UNIMPLEMENTED.
	SourcePath func(source string) []*podconfigv1.RelayHop
	// Preview and Parse are for DiffManifests: what a source's origins would change, and what is in a manifest file.
	// If nil, it answers UNIMPLEMENTED.
	Preview func(source string, origins []*manifest.Origin, gone []string) (merge.Preview, error)
	Parse   func(origin string, data []byte) *manifest.Origin
	// Writing is for ApplyManifests, DeleteManifests and ListManifests, which need Preview, too. If nil, they answer
	// UNIMPLEMENTED.
	Writing *Writing
	// ID is this podconfigd's, for cursors. Empty: unknown.
	ID string
	// Silent reports whether a source's place doesn't answer now. A consumer that subscribes then gets its pods as RESTORE,
	// and not as ADD. Nil: none is.
	Silent func(source string) bool
	// Accept accepts what a source refuses, and returns what that was; nothing if it refuses nothing. Nil: no source
	// refuses anything.
	Accept func(source string) (accepted string, err error)
	// Rewound is called if a consumer has a cursor of the current instance beyond the last revision: see
	// mergesvc.Hub.Rewound. Nil is not called.
	Rewound func(revision uint64)
	// Confirm requests that a source checks how current its pods of some nodes are: see sources.Confirmer. It returns
	// zero if the source can't. Nil: no source can.
	Confirm func(source string, nodes []string) uint64
	// Lacking returns one of the nodes whose pods a source doesn't have here, whatever the cluster has; false: it has those of
	// all. NodesChanged has to be called before that changes what the source has. Nil: each source has the pods of all nodes.
	Lacking func(source string, nodes []string) (node string, lacking bool)
	// Objects has the ConfigMaps and Secrets for WatchObjects. If nil, it answers UNIMPLEMENTED.
	Objects *objects.Hub
	// MaxConsumers is the maximum of open streams, of pods and of objects together. Zero means 10,000.
	MaxConsumers int
	// MaxConsumersPerIdentity is the maximum of one identity. It doesn't apply to root and podconfigd's own user.
	// Zero means a tenth of MaxConsumers, and at least one.
	MaxConsumersPerIdentity int
	// ReservedConsumers is the part of MaxConsumers that only root and podconfigd's own user get. Zero means 256, or
	// a quarter of MaxConsumers if that is less.
	ReservedConsumers int
	// ParkAfter is the time after which a consumer that doesn't read counts as parked. Zero means 5 s.
	ParkAfter time.Duration
	// Metrics may be nil.
	Metrics *metrics.Metrics
	// Tracer makes a span for each delivery of a revision whose trace is sampled. Nil makes none.
	Tracer trace.Tracer
	// Logger gets a line when a consumer subscribes, is synced, is parked, and is gone. Nil discards.
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
	lines     *lines
	lists     lists
	accepted  accepted
	kept      *sharedAmount
	diffs     *diffs
	// writes are those under way, and writeRates bound those that a caller begins.
	writes     *sharedAmount
	writeRates *writeRates
	// admission admits expensive calls: ListPods and DiffManifests. ListSources and ListConsumers have queues of their
	// own: a relay uses ListSources to learn when its sources were last heard, with a short deadline, while a list of
	// consumers may be long.
	admission, sourceAdmission, consumerAdmission admissionQueue
	// work bounds the streams that run at once.
	work *workLimiter

	// nodes counts the calls of NodesChanged.
	nodes atomic.Uint64

	// closing ends when the server closes.
	closing context.Context //nolint:containedctx // The streams' contexts end with it.
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
	if cfg.Silent == nil {
		cfg.Silent = func(string) bool { return false }
	}
	if cfg.Confirm == nil {
		cfg.Confirm = func(string, []string) uint64 { return 0 }
	}
	if cfg.MaxConsumers == 0 {
		cfg.MaxConsumers = 10_000
	}
	if cfg.MaxConsumersPerIdentity == 0 {
		cfg.MaxConsumersPerIdentity = max(cfg.MaxConsumers/10, 1)
	}
	if cfg.ReservedConsumers == 0 {
		cfg.ReservedConsumers = min(256, cfg.MaxConsumers/4)
	}
	if cfg.ParkAfter == 0 {
		cfg.ParkAfter = 5 * time.Second
	}
	lines := newLines(cfg.Logger, cfg.Clock)
	s := &Server{
		cfg: cfg, lines: lines, history: cfg.History, log: cfg.Logger, clock: cfg.Clock, metrics: cfg.Metrics,
		consumers: newConsumers(cfg, lines), kept: newSharedAmount(keptShare), diffs: newDiffs(), work: newWorkLimiter(),
		writes: newSharedAmount(writeShare), writeRates: newWriteRates(cfg.Clock),
	}
	s.closing, s.close = context.WithCancel(context.Background())
	return s
}

// Close ends every stream with UNAVAILABLE, so that consumers reconnect. A stream first finishes the revision that it
// is sending.
func (s *Server) Close() {
	s.close()
	// A stream that registers later finds that the server is closing before it waits. Those of objects have a context
	// that ends.
	for _, c := range s.consumers.all() {
		if r, ok := c.course.(*history.Reader); ok {
			r.Wake()
		}
	}
}

func (s *Server) isClosing() bool { return s.closing.Err() != nil }
