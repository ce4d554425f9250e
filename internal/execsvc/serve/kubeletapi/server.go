package kubeletapi

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

	"github.com/podstream/podstream/internal/execsvc/pod/observed"
	"github.com/podstream/podstream/internal/execsvc/pod/podview"
	"github.com/podstream/podstream/internal/execsvc/serve/kubeletapi/auth"
)

// Auth authorizes requests: an *auth.Auth.
type Auth interface {
	// Check returns the user of the request, or the reason for its refusal.
	Check(r *http.Request) (*auth.User, *auth.Refusal)
	// ClientCAs are sent in handshakes. Nil: there are none.
	ClientCAs() *x509.CertPool
}

// Pods has the pods of /pods: a *podview.Board.
type Pods interface{ All() []podview.Pod }

// Runtime has the pods of /runningpods: a *runtime.Runtime.
type Runtime interface {
	List(ctx context.Context) ([]*observed.Pod, error)
}

// Config configures a Server.
type Config struct {
	// Listeners serve the whole API, with TLS: they need TLS and Auth. ReadOnly serve the public part, without
	// either, and Health only /healthz. Run closes them all.
	Listeners, ReadOnly, Health []net.Listener
	// TLS has the certificate, or GetCertificate, and the versions and cipher suites. The Server sets ClientAuth and
	// ClientCAs.
	TLS  *tls.Config
	Auth Auth

	Pods    Pods
	Runtime Runtime
	// Configuration returns the effective KubeletConfiguration, for /configz. Nil: no such path.
	Configuration func() any
	// Checks are the checks of /healthz besides ping and log, by name; "syncloop" as in the kubelet. They are called
	// concurrently.
	Checks map[string]func() error
	// LogOutput is the process's log, which /healthz/log checks. Nil: os.Stderr.
	LogOutput *os.File
	// Handlers are the handlers of /stats/… and /metrics…, by exact path. The read-only port has them too.
	Handlers map[string]http.Handler
	// Streams serves /containerLogs/, /exec/, /attach/, /portForward/, /run/ and /checkpoint/. Nil: no such paths.
	Streams http.Handler

	Debug Debug
	Pages Pages
	// Limits limit the resources that callers can use.
	Limits Limits
	// Logger receives refusals and failures. Nil discards.
	Logger *slog.Logger
	// Metrics registers the Server's metrics. Nil: no metrics.
	Metrics prometheus.Registerer
}

// Debug enables the kubelet's debugging handlers. The zero value enables none.
type Debug struct {
	// Handlers enables Streams, /runningpods/ and all others below.
	Handlers bool
	// SystemLogs serves the files of LogDir at /logs/, and SystemLogQuery also the journal's lines of services.
	SystemLogs, SystemLogQuery bool
	// LogDir is /var/log if empty.
	LogDir string
	// Journalctl is the program that reads the journal. Empty: journalctl in $PATH.
	Journalctl string
	// Profiling serves /debug/pprof/. ContentionProfiling records lock contention in the whole process.
	Profiling, ContentionProfiling bool
	// SetVerbosity changes the log's verbosity, for PUT /debug/flags/v. Nil: it can't be changed.
	SetVerbosity func(level string) error
}

// stopGrace is how long requests may continue when the Server ends.
const stopGrace = 2 * time.Second

// Server serves the node's API.
type Server struct {
	cfg      Config
	log      *slog.Logger
	refusals *refusals
	metrics  *metrics
	slis     *slis
	ports    []*port
	started  time.Time
	// unhealthy is the last failure of /healthz; empty if none.
	unhealthy atomic.Pointer[string]

	mu    sync.Mutex
	ended bool
	// requests are the requests under way; none is added once ended is set.
	requests sync.WaitGroup
}

// port is one listener and its routes.
type port struct {
	server *Server
	guard  *guard
	http   *http.Server
	routes *routes
	// auth is nil where no authentication is needed.
	auth Auth
	// kind is the value of the metrics' label.
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
			return nil, fmt.Errorf("%s would be served without authentication on the read-only port", path)
		}
	}
	cfg.Limits = cfg.Limits.withDefaults()
	s := &Server{cfg: cfg, log: cfg.Logger, refusals: newRefusals(cfg.Logger), metrics: newMetrics(), slis: newSLIs(), started: time.Now()}
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
		// The handshake has this time limit, too.
		ReadHeaderTimeout: limits.HeaderTimeout, IdleTimeout: limits.IdleTimeout, MaxHeaderBytes: limits.MaxHeaderBytes,
		DisableGeneralOptionsHandler: true,
		ErrorLog:                     newErrorLog(s.refusals),
		HTTP2: &http.HTTP2Config{
			MaxConcurrentStreams: limits.StreamsPerConnection, MaxReceiveBufferPerConnection: 64 << 10, MaxReceiveBufferPerStream: 64 << 10,
			// This detects a peer that has disappeared.
			SendPingTimeout: 30 * time.Second, PingTimeout: 15 * time.Second,
		},
	}
	if auth != nil {
		p.http.TLSConfig = serving(s.cfg.TLS, auth)
	}
	s.ports = append(s.ports, p)
}

// serving requests a client certificate, but doesn't require one: the caller may have a token. Auth verifies it with
// each request.
func serving(base *tls.Config, auth Auth) *tls.Config {
	base = base.Clone()
	base.ClientAuth, base.NextProtos = tls.RequestClientCert, []string{"h2", "http/1.1"}
	outer := base.Clone()
	// net/http requires suites for HTTP/2 in this configuration, though only the inner one is used.
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

// stop gives requests a moment to end. The contexts of streams are canceled.
func (p *port) stop(ended context.Context) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ended), stopGrace)
	defer cancel()
	if p.http.Shutdown(ctx) != nil {
		_ = p.http.Close()
	}
	// net/http doesn't close connections that a handler has hijacked.
	p.guard.closeAll()
}

// begin counts a request, unless the Server has ended.
func (s *Server) begin() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.ended {
		return false
	}
	s.requests.Add(1)
	return true
}
