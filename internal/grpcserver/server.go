package grpcserver

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"runtime/debug"
	"time"

	grpcprom "github.com/grpc-ecosystem/go-grpc-middleware/providers/prometheus"
	"github.com/grpc-ecosystem/go-grpc-middleware/v2/interceptors/logging"
	"github.com/grpc-ecosystem/go-grpc-middleware/v2/interceptors/recovery"
	"github.com/prometheus/client_golang/prometheus"
	"golang.org/x/sync/errgroup"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/health"
	healthv1 "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/keepalive"
	"google.golang.org/grpc/reflection"
	"google.golang.org/grpc/status"
)

// The server's limits.
const (
	// maxRequest leaves room for the known pods of a node that is many times larger than any.
	maxRequest = 4 << 20
	// grace is how long calls that are under way may take once the server goes down.
	grace = 5 * time.Second
)

// Config says what a Server serves.
type Config struct {
	// Register adds the services.
	Register func(grpc.ServiceRegistrar)
	// Closing ends the streams of the services when the server goes down. May be nil.
	Closing func()
	// Logger gets a line a call, at debug level. Nil discards.
	Logger *slog.Logger
	// Metrics is where the gRPC metrics are registered. Nil means nowhere.
	Metrics prometheus.Registerer
}

// Server is a gRPC server with health and reflection.
type Server struct {
	cfg    Config
	grpc   *grpc.Server
	health *health.Server
}

// New returns a Server that isn't serving yet. Its health is SERVING once Serve runs.
func New(cfg Config) *Server {
	if cfg.Logger == nil {
		cfg.Logger = slog.New(slog.DiscardHandler)
	}
	metrics := grpcprom.NewServerMetrics(grpcprom.WithServerHandlingTimeHistogram())
	logger := callLogger(cfg.Logger)
	recoverer := recovery.WithRecoveryHandlerContext(func(_ context.Context, p any) error {
		cfg.Logger.Error("a gRPC handler panicked; its caller gets INTERNAL, the daemon goes on", "panic", p, "stack", string(debug.Stack()))
		return status.Error(codes.Internal, "internal error; the daemon's log has the details")
	})
	events := logging.WithLogOnEvents(logging.StartCall, logging.FinishCall)
	s := &Server{cfg: cfg, health: health.NewServer()}
	// Recovery is innermost, so that a panic is logged and counted as the INTERNAL that it becomes.
	s.grpc = grpc.NewServer(
		grpc.ChainUnaryInterceptor(metrics.UnaryServerInterceptor(),
			logging.UnaryServerInterceptor(logger, events), recovery.UnaryServerInterceptor(recoverer)),
		grpc.ChainStreamInterceptor(metrics.StreamServerInterceptor(),
			logging.StreamServerInterceptor(logger, events), recovery.StreamServerInterceptor(recoverer)),
		grpc.MaxRecvMsgSize(maxRequest),
		grpc.KeepaliveParams(keepalive.ServerParameters{Time: time.Minute, Timeout: 20 * time.Second}),
		grpc.KeepaliveEnforcementPolicy(keepalive.EnforcementPolicy{MinTime: 10 * time.Second, PermitWithoutStream: true}),
	)
	cfg.Register(s.grpc)
	healthv1.RegisterHealthServer(s.grpc, s.health)
	reflection.RegisterV1(s.grpc)
	metrics.InitializeMetrics(s.grpc)
	if cfg.Metrics != nil {
		cfg.Metrics.MustRegister(metrics)
	}
	return s
}

// Serve serves on the listeners until ctx ends, then closes them and ends what is under way.
func (s *Server) Serve(ctx context.Context, listeners []net.Listener) error {
	group, ctx := errgroup.WithContext(ctx)
	for _, l := range listeners {
		s.cfg.Logger.Info("serving gRPC", "address", l.Addr().Network()+"://"+l.Addr().String())
		group.Go(func() error {
			// A server that is stopped before it got here is as well stopped as any.
			if err := s.grpc.Serve(l); err != nil && !errors.Is(err, grpc.ErrServerStopped) {
				return fmt.Errorf("serve %s: %w", l.Addr(), err)
			}
			return nil
		})
	}
	group.Go(func() error {
		<-ctx.Done()
		s.stop()
		return nil
	})
	return group.Wait()
}

// stop tells callers to come back later (GOAWAY, and UNAVAILABLE on streams), and cuts off those that don't listen.
func (s *Server) stop() {
	s.health.Shutdown()
	if s.cfg.Closing != nil {
		s.cfg.Closing()
	}
	cut := time.AfterFunc(grace, s.grpc.Stop)
	defer cut.Stop()
	s.grpc.GracefulStop()
}

// callLogger writes the interceptor's events at debug level: a node's log isn't an access log.
func callLogger(log *slog.Logger) logging.Logger {
	return logging.LoggerFunc(func(ctx context.Context, _ logging.Level, msg string, fields ...any) {
		log.Log(ctx, slog.LevelDebug, msg, fields...) //nolint:sloglint // The interceptor has two messages, both constant.
	})
}
