package server

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"os"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"golang.org/x/sync/errgroup"

	"github.com/podstream/podstream/internal/execsvc/board"
	"github.com/podstream/podstream/internal/execsvc/observed"
	"github.com/podstream/podstream/internal/execsvc/server/auth"
)

// Auth decides about requests: an *auth.Auth.
type Auth interface {
	// Check tells who asks, or why he is refused.
	Check(r *http.Request) (*auth.User, *auth.Refusal)
	// ClientCAs are named in handshakes. Nil: there are none.
	ClientCAs() *x509.CertPool
}

// Pods are the pods of /pods: a *board.Board.
type Pods interface{ All() []board.Pod }

// Runtime has the pods of /runningpods: a *runtime.Runtime.
type Runtime interface {
	List(ctx context.Context) ([]*observed.Pod, error)
}

// Config is what a Server serves, where and to whom.
type Config struct {
	// Listeners are for the whole API, with TLS: each needs TLS and Auth. ReadOnly are for what is no secret, without either, and Health
	// for /healthz only. Run closes them all.
	Listeners, ReadOnly, Health []net.Listener
	// TLS has the certificate, or GetCertificate, and the versions and suites. Whom it asks for certificates is up to the Server.
	TLS  *tls.Config
	Auth Auth

	Pods    Pods
	Runtime Runtime
	// Configuration is the effective KubeletConfiguration, for /configz. Nil: there is no such path.
	Configuration func() any
	// Checks are what /healthz asks besides ping and log, by name; "syncloop" as with the kubelet. A check may be called at any time.
	Checks map[string]func() error
	// LogOutput is where the process logs to, which /healthz/log looks at. Nil: os.Stderr.
	LogOutput *os.File
	// Handlers are those of /stats/… and /metrics…, by exact path. The read-only port has them too.
	Handlers map[string]http.Handler
	// Streams serves /containerLogs/, /exec/, /attach/, /portForward/, /run/ and /checkpoint/. Nil: there are no such paths.
	Streams http.Handler

	Debug Debug
	// Limits bound what callers can make the Server do.
	Limits Limits
	// Logger gets what is refused and what fails. Nil discards.
	Logger *slog.Logger
	// Metrics gets the Server's. Nil: nobody does.
	Metrics prometheus.Registerer
}

// Debug says which of the kubelet's debugging handlers there are. The zero value has none.
type Debug struct {
	// Handlers are Streams, /runningpods/ and all others below.
	Handlers bool
	// SystemLogs serves the files of LogDir at /logs/, and SystemLogQuery also what the journal has of services.
	SystemLogs, SystemLogQuery bool
	// LogDir is /var/log if empty.
	LogDir string
	// Journalctl is the program that reads the journal. Empty: journalctl, wherever it is.
	Journalctl string
	// Profiling serves /debug/pprof/. ContentionProfiling makes the whole process note who waits for locks.
	Profiling, ContentionProfiling bool
	// SetVerbosity changes the log's verbosity, for PUT /debug/flags/v. Nil: it can't be changed.
	SetVerbosity func(level string) error
}

// stopGrace is how long requests may go on when the Server ends.
const stopGrace = 2 * time.Second

// Server serves the node's API.
type Server struct {
	cfg      Config
	log      *slog.Logger
	refusals *refusals
	metrics  *metrics
	ports    []*port
	// unhealthy is what /healthz found failing last; empty if nothing.
	unhealthy atomic.Pointer[string]

	mu    sync.Mutex
	ended bool
	// requests are those under way; none is added once ended is set.
	requests sync.WaitGroup
}

// port is one listener and what is served on it.
type port struct {
	server *Server
	guard  *guard
	http   *http.Server
	routes *routes
	// auth is nil where everybody may ask.
	auth Auth
	// kind is the label of metrics.
	kind string
}

// New returns a Server. The listeners stay open if it fails.
func New(cfg Config) (*Server, error) {
	if cfg.Logger == nil {
		cfg.Logger = slog.New(slog.DiscardHandler)
	}
	if cfg.LogOutput == nil {
		cfg.LogOutput = os.Stderr
	}
	if len(cfg.Listeners) > 0 && (cfg.TLS == nil || cfg.Auth == nil) {
		return nil, errors.New("the node's API needs a TLS configuration, and an authority on who may use it")
	}
	for path := range cfg.Handlers {
		if path != "/metrics" && !strings.HasPrefix(path, "/metrics/") && !strings.HasPrefix(path, "/stats/") {
			return nil, fmt.Errorf("%s would be served to everybody on the read-only port", path)
		}
	}
	cfg.Limits = cfg.Limits.withDefaults()
	s := &Server{cfg: cfg, log: cfg.Logger, refusals: newRefusals(cfg.Logger), metrics: newMetrics()}
	if err := s.register(); err != nil {
		return nil, err
	}
	if cfg.Debug.Handlers && cfg.Debug.Profiling && cfg.Debug.ContentionProfiling {
		runtime.SetBlockProfileRate(1)
	}
	all, open, health := s.allRoutes(), s.openRoutes(), s.healthRoutes()
	for _, l := range cfg.Listeners {
		s.add(l, cfg.Limits, all, cfg.Auth, "readwrite")
	}
	for _, l := range cfg.ReadOnly {
		s.add(l, cfg.Limits.open(), open, nil, "readonly")
	}
	for _, l := range cfg.Health {
		s.add(l, cfg.Limits.open(), health, nil, "healthz")
	}
	return s, nil
}

func (s *Server) register() error {
	if s.cfg.Metrics == nil {
		return nil
	}
	for _, c := range append(s.metrics.all(), s.refusals.total) {
		if err := s.cfg.Metrics.Register(c); err != nil {
			return fmt.Errorf("register the metrics of the node's API: %w", err)
		}
	}
	return nil
}

func (s *Server) add(l net.Listener, limits Limits, routes *routes, auth Auth, kind string) {
	p := &port{server: s, guard: newGuard(l, limits, s.refusals), routes: routes, auth: auth, kind: kind}
	p.http = &http.Server{
		Handler: p, ConnContext: withConn,
		// The handshake is to be done within it, too.
		ReadHeaderTimeout: limits.HeaderTimeout, IdleTimeout: limits.IdleTimeout, MaxHeaderBytes: limits.MaxHeaderBytes,
		DisableGeneralOptionsHandler: true,
		ErrorLog:                     newErrorLog(s.refusals),
		HTTP2: &http.HTTP2Config{
			MaxConcurrentStreams: limits.StreamsPerConnection, MaxReceiveBufferPerConnection: 64 << 10, MaxReceiveBufferPerStream: 64 << 10,
			// A peer that is gone without a word is found out.
			SendPingTimeout: 30 * time.Second, PingTimeout: 15 * time.Second,
		},
	}
	if auth != nil {
		p.http.TLSConfig = serving(s.cfg.TLS, auth)
	}
	s.ports = append(s.ports, p)
}

// serving asks for a client certificate without insisting: who has none may have a token. Auth verifies it, with each request.
func serving(base *tls.Config, auth Auth) *tls.Config {
	base = base.Clone()
	base.ClientAuth, base.NextProtos = tls.RequestClientCert, []string{"h2", "http/1.1"}
	outer := base.Clone()
	// net/http insists on one that HTTP/2 asks for, whether the list is used or not: it isn't, the inner one is.
	outer.CipherSuites = nil
	outer.GetConfigForClient = func(hello *tls.ClientHelloInfo) (*tls.Config, error) {
		inner := base
		if base.GetConfigForClient != nil {
			own, err := base.GetConfigForClient(hello)
			if err != nil {
				return nil, err
			}
			if own != nil {
				inner = own
			}
		}
		inner = inner.Clone()
		inner.ClientAuth, inner.ClientCAs, inner.NextProtos = tls.RequestClientCert, auth.ClientCAs(), base.NextProtos
		return inner, nil
	}
	return outer
}

// Run serves until ctx ends, or until a listener fails. It is called once. Without listeners it returns at once.
func (s *Server) Run(ctx context.Context) error {
	group, ctx := errgroup.WithContext(ctx)
	for _, p := range s.ports {
		p.http.BaseContext = func(net.Listener) context.Context { return ctx }
		group.Go(p.serve)
		group.Go(func() error {
			<-ctx.Done()
			p.stop(ctx)
			return nil
		})
	}
	err := group.Wait()
	s.mu.Lock()
	s.ended = true
	s.mu.Unlock()
	s.requests.Wait()
	return err
}

func (p *port) serve() error {
	var err error
	if p.auth != nil {
		err = p.http.ServeTLS(p.guard, "", "")
	} else {
		err = p.http.Serve(p.guard)
	}
	if errors.Is(err, http.ErrServerClosed) {
		return nil
	}
	return fmt.Errorf("serve the node's API on %s: %w", p.guard.Addr(), err)
}

// stop lets requests end for a moment. Those of streams see their context end.
func (p *port) stop(ended context.Context) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ended), stopGrace)
	defer cancel()
	if p.http.Shutdown(ctx) != nil {
		_ = p.http.Close()
	}
	// Those that a handler has taken over aren't known to net/http any more.
	p.guard.closeAll()
}

// begin notes a request, unless the Server has ended.
func (s *Server) begin() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.ended {
		return false
	}
	s.requests.Add(1)
	return true
}
