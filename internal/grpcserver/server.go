package grpcserver

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"runtime/debug"
	"slices"
	"sync"
	"time"

	grpcprom "github.com/grpc-ecosystem/go-grpc-middleware/providers/prometheus"
	"github.com/grpc-ecosystem/go-grpc-middleware/v2/interceptors/logging"
	"github.com/grpc-ecosystem/go-grpc-middleware/v2/interceptors/recovery"
	"github.com/prometheus/client_golang/prometheus"
	"golang.org/x/sync/errgroup"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/encoding"
	"google.golang.org/grpc/health"
	healthv1 "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/keepalive"
	"google.golang.org/grpc/reflection"
	"google.golang.org/grpc/status"
	"k8s.io/utils/clock"

	"github.com/podstream/podstream/internal/access"
)

const (
	// maxHeaderBytes bounds one call's header: names, a trace context, some baggage.
	maxHeaderBytes = 64 << 10
	// keepaliveTime is the silence after which the server pings a caller, and keepaliveTimeout the time limit for the
	// answer. A client that pings more than once in keepaliveMinimum is disconnected (GOAWAY, ENHANCE_YOUR_CALM).
	keepaliveTime    = time.Minute
	keepaliveTimeout = 20 * time.Second
	keepaliveMinimum = 10 * time.Second
)

// Config configures a Server.
type Config struct {
	// Register adds the services.
	Register func(grpc.ServiceRegistrar)
	// Closing ends the streams of the services when the server stops. May be nil.
	Closing func()
	// Access authorizes callers. Nil means root and the daemon's own user, on Unix sockets. The services get the
	// caller from access.FromContext.
	Access *access.Access
	// Limits bound the server's work for callers. The zero value has defaults.
	Limits Limits
	// Quiet are the streams, by full method, whose messages are neither counted nor logged one by one, as that would
	// cost more than a tenth of sending them. Their services count messages themselves.
	Quiet []string
	// AcceptTCP is closed when connections over TCP are accepted; before that they wait. Nil: at once.
	AcceptTCP <-chan struct{}
	// Codec encodes and decodes messages. Nil means gRPC's own for protobuf. With either, requests with too many
	// values aren't decoded.
	Codec encoding.CodecV2
	// ServerOptions are passed to gRPC after the server's own. Interceptors come innermost. Credentials, codec and
	// tap handle are the server's.
	ServerOptions []grpc.ServerOption
	// Clock is for rates and the reading of files. Nil means the real one.
	Clock clock.WithTicker
	// Logger receives a line for each call, at debug level. Nil discards.
	Logger *slog.Logger
	// Metrics is the registry of the gRPC metrics. Nil means none.
	Metrics prometheus.Registerer
}

// Server is a gRPC server with health and reflection.
type Server struct {
	cfg    Config
	grpc   *grpc.Server
	health *health.Server
	guard  *guard
	own    *ownStreams
	calls  *underWay
	// running are the calls under way.
	running *running
	// closing is closed when the server stops.
	closing chan struct{}

	partsMu sync.Mutex
	// parts are the parts of the daemon that have a health. The daemon as a whole is "".
	parts map[string]bool
}

// New returns a Server that isn't serving yet. Its health is SERVING once Serve runs.
func New(cfg Config) *Server {
	if cfg.Logger == nil {
		cfg.Logger = slog.New(slog.DiscardHandler)
	}
	if cfg.Access == nil {
		cfg.Access = access.Local()
	}
	if cfg.Clock == nil {
		cfg.Clock = clock.RealClock{}
	}
	limits := cfg.Limits.withDefaults()
	refused := newRefusals(cfg.Clock, cfg.Logger)
	s := &Server{
		cfg: cfg, health: health.NewServer(), guard: newGuard(cfg.Access, limits, cfg.Clock, refused, cfg.Logger),
		own: newOwnStreams(limits, refused), calls: newUnderWay(limits, refused), running: newRunning(), closing: make(chan struct{}),
		parts: map[string]bool{"": true},
	}
	metrics := grpcprom.NewServerMetrics(grpcprom.WithServerHandlingTimeHistogram())
	options := slices.Concat(interceptors(s, metrics, newRates(limits, cfg.Clock, refused)), []grpc.ServerOption{
		grpc.Creds(handshaker{cfg.Access.TransportCredentials(), s.guard}),
		grpc.InTapHandle(s.authorize),
		grpc.ForceServerCodecV2(newBoundedCodec(cfg.Codec)),
		grpc.StatsHandler(connectionContexts{s.running}),
		grpc.ConnectionTimeout(limits.HandshakeTimeout),
		grpc.MaxConcurrentStreams(uint32(limits.MaxStreamsPerConnection)), //nolint:gosec // The flag is checked.
		grpc.MaxRecvMsgSize(limits.MaxRequestBytes),
		grpc.MaxHeaderListSize(maxHeaderBytes),
		grpc.KeepaliveParams(keepalive.ServerParameters{Time: keepaliveTime, Timeout: keepaliveTimeout}),
		grpc.KeepaliveEnforcementPolicy(keepalive.EnforcementPolicy{MinTime: keepaliveMinimum, PermitWithoutStream: true}),
	}, cfg.ServerOptions)
	s.grpc = grpc.NewServer(options...)
	cfg.Register(s.grpc)
	healthv1.RegisterHealthServer(s.grpc, s.health)
	reflection.RegisterV1(s.grpc)
	s.calls.register(s.grpc.GetServiceInfo())
	metrics.InitializeMetrics(s.grpc)
	if cfg.Metrics != nil {
		cfg.Metrics.MustRegister(metrics, refused.total)
	}
	return s
}

// interceptors returns the interceptors of every server. Recovery is innermost, so that a panic is logged and counted
// as the INTERNAL that it becomes; calls over the rate are logged and counted too.
func interceptors(s *Server, metrics *grpcprom.ServerMetrics, rates *rates) []grpc.ServerOption {
	logger := callLogger(s.cfg.Logger)
	recoverer := recovery.WithRecoveryHandlerContext(func(_ context.Context, p any) error {
		s.cfg.Logger.Error("a gRPC handler panicked; its caller gets INTERNAL, the daemon goes on", "panic", p, "stack", string(debug.Stack()))
		return status.Error(codes.Internal, "internal error; the daemon's log has the details")
	})
	events := logging.WithLogOnEvents(logging.StartCall, logging.FinishCall)
	return []grpc.ServerOption{
		grpc.ChainUnaryInterceptor(metrics.UnaryServerInterceptor(), logging.UnaryServerInterceptor(logger, events),
			rates.unary, s.calls.interceptUnary, recovery.UnaryServerInterceptor(recoverer)),
		grpc.ChainStreamInterceptor(
			s.loud(metrics.StreamServerInterceptor()), s.loud(logging.StreamServerInterceptor(logger, events)),
			rates.stream, s.calls.interceptStream, s.endOwn, recovery.StreamServerInterceptor(recoverer)),
	}
}

// loud returns an interceptor of all streams except the quiet ones. package selector does the same with four times the
// stack, which each stream keeps.
func (s *Server) loud(i grpc.StreamServerInterceptor) grpc.StreamServerInterceptor {
	return func(srv any, stream grpc.ServerStream, info *grpc.StreamServerInfo, handler grpc.StreamHandler) error {
		if slices.Contains(s.cfg.Quiet, info.FullMethod) {
			return handler(srv, stream)
		}
		return i(srv, stream, info, handler)
	}
}

// Serve serves on the listeners until ctx ends, then closes them and ends what is under way. It is called once.
func (s *Server) Serve(ctx context.Context, listeners []net.Listener) error {
	group, ctx := errgroup.WithContext(ctx)
	for _, l := range listeners {
		s.cfg.Logger.Info("serving gRPC", "address", l.Addr().Network()+"://"+l.Addr().String())
		group.Go(func() error {
			if !s.mayAccept(ctx, l) {
				return l.Close()
			}
			// A server that was stopped before it serves is no error.
			if err := s.grpc.Serve(s.guard.listener(l)); err != nil && !errors.Is(err, grpc.ErrServerStopped) {
				return fmt.Errorf("serve %s: %w", l.Addr(), err)
			}
			return nil
		})
	}
	group.Go(func() error {
		s.guard.run(ctx)
		return nil
	})
	group.Go(func() error {
		<-ctx.Done()
		s.stop()
		return nil
	})
	return group.Wait()
}

// mayAccept waits until connections may be accepted. It returns false if ctx ends first.
func (s *Server) mayAccept(ctx context.Context, l net.Listener) bool {
	if s.cfg.AcceptTCP == nil || l.Addr().Network() != "tcp" {
		return true
	}
	select {
	case <-s.cfg.AcceptTCP:
	case <-ctx.Done():
	}
	return ctx.Err() == nil
}

// SetHealth sets the health of a part of the daemon. The health of the daemon as a whole is whether it serves.
func (s *Server) SetHealth(part string, good bool) {
	status := healthv1.HealthCheckResponse_NOT_SERVING
	if good {
		status = healthv1.HealthCheckResponse_SERVING
	}
	s.setHealth(part, status)
}

// SetHealthUnknown sets the health of a part of the daemon to unknown.
func (s *Server) SetHealthUnknown(part string) {
	s.setHealth(part, healthv1.HealthCheckResponse_UNKNOWN)
}

// RemoveHealth removes a part of the daemon. Callers get SERVICE_UNKNOWN for it.
func (s *Server) RemoveHealth(part string) {
	s.health.SetServingStatus(part, healthv1.HealthCheckResponse_SERVICE_UNKNOWN)
	s.partsMu.Lock()
	defer s.partsMu.Unlock()
	delete(s.parts, part)
}

func (s *Server) setHealth(part string, status healthv1.HealthCheckResponse_ServingStatus) {
	s.health.SetServingStatus(part, status)
	s.partsMu.Lock()
	defer s.partsMu.Unlock()
	s.parts[part] = true
}

// Health returns the health of each part of the daemon, by the names of SetHealth. The daemon as a whole is "".
func (s *Server) Health() map[string]bool {
	s.partsMu.Lock()
	defer s.partsMu.Unlock()
	health := map[string]bool{}
	for part := range s.parts {
		// It answers from memory. Its List fails beyond a hundred parts.
		answer, err := s.health.Check(context.Background(), &healthv1.HealthCheckRequest{Service: part})
		health[part] = err == nil && answer.GetStatus() == healthv1.HealthCheckResponse_SERVING
	}
	return health
}

// callLogger writes the interceptor's events at debug level: a node's log isn't an access log.
func callLogger(log *slog.Logger) logging.Logger {
	return logging.LoggerFunc(func(ctx context.Context, _ logging.Level, msg string, fields ...any) {
		log.Log(ctx, slog.LevelDebug, msg, fields...) //nolint:sloglint // The interceptor has two messages, both constant.
	})
}
