package podexecd

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"os"
	"path/filepath"
	"strconv"
	"sync/atomic"

	"github.com/prometheus/client_golang/prometheus/promhttp"
	"golang.org/x/sync/errgroup"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"

	"github.com/podstream/podstream/internal/execconfig"
	"github.com/podstream/podstream/internal/execsvc/nodecert"
	"github.com/podstream/podstream/internal/execsvc/observed"
	"github.com/podstream/podstream/internal/execsvc/runtime"
	"github.com/podstream/podstream/internal/execsvc/server"
	"github.com/podstream/podstream/internal/execsvc/server/auth"
	"github.com/podstream/podstream/internal/execsvc/server/stream"
	"github.com/podstream/podstream/internal/execsvc/stats"
)

// nodeAPI is what the kubelet serves on its ports. What needs the container runtime answers 503 until that has answered.
type nodeAPI struct {
	server  *server.Server
	serving *nodecert.Serving
	streams *lateHandler
	// stats are the handlers of statistics, by path.
	stats map[string]*lateHandler
}

// These are the paths of statistics.
const (
	pathSummary  = "/stats/summary"
	pathResource = "/metrics/resource"
	pathCadvisor = "/metrics/cadvisor"
)

// newNodeAPI listens on the node's ports; nil if there are none.
func newNodeAPI(n *node) (_ *nodeAPI, err error) {
	s := n.opts.settings
	var listeners, readOnly, health []net.Listener
	defer func() {
		if err != nil {
			for _, l := range append(append(listeners, readOnly...), health...) {
				_ = l.Close()
			}
		}
	}()
	for _, p := range []struct {
		flag    string
		on      bool
		address netip.Addr
		port    int
		to      *[]net.Listener
	}{
		{"--port", s.EnableServer, s.Address, s.Port, &listeners},
		{"--read-only-port", s.EnableServer && s.ReadOnlyPort != 0, s.Address, s.ReadOnlyPort, &readOnly},
		{"--healthz-port", s.HealthzPort != 0, s.HealthzBindAddress, s.HealthzPort, &health},
	} {
		if !p.on {
			continue
		}
		l, err := net.Listen("tcp", net.JoinHostPort(p.address.String(), strconv.Itoa(p.port)))
		if err != nil {
			return nil, fmt.Errorf("%s: %w", p.flag, err)
		}
		*p.to = append(*p.to, l)
	}
	if len(listeners)+len(health) == 0 {
		return nil, nil
	}
	api := &nodeAPI{streams: &lateHandler{}, stats: map[string]*lateHandler{pathSummary: {}, pathResource: {}, pathCadvisor: {}}}
	cfg := server.Config{
		Listeners: listeners, ReadOnly: readOnly, Health: health, Pods: n.board, Runtime: &n.runtime, Streams: api.streams,
		Configuration: func() any { return s.KubeletConfiguration() }, Checks: map[string]func() error{"syncloop": n.loopHealth}, LogOutput: os.Stderr,
		Handlers: map[string]http.Handler{"/metrics": promhttp.HandlerFor(n.registry, promhttp.HandlerOpts{})},
		Debug: server.Debug{
			Handlers: s.EnableDebuggingHandlers, SystemLogs: s.EnableSystemLogHandler, SystemLogQuery: s.EnableSystemLogQuery, LogDir: s.SystemLogDir,
			Profiling: s.EnableProfilingHandler, ContentionProfiling: s.EnableContentionProfiling,
		},
		Logger: n.log, Metrics: n.registry,
	}
	for path, handler := range api.stats {
		cfg.Handlers[path] = handler
	}
	if s.EnableDebugFlagsHandler {
		cfg.Debug.SetVerbosity = n.opts.SetVerbosity
	}
	if len(listeners) > 0 {
		api.serving = nodecert.NewServing(n.servingConfig())
		cfg.TLS = api.serving.TLSConfig()
		if cfg.Auth, err = n.authority(); err != nil {
			return nil, err
		}
	}
	if api.server, err = server.New(cfg); err != nil {
		return nil, fmt.Errorf("the node's API: %w", err)
	}
	return api, nil
}

// run has the group serve until ctx ends.
func (a *nodeAPI) run(ctx context.Context, group *errgroup.Group) {
	if a == nil {
		return
	}
	group.Go(func() error { return a.server.Run(ctx) })
	if a.serving != nil {
		group.Go(func() error { a.serving.Run(ctx); return nil })
	}
}

// servingConfig is by which certificate the node's API is known.
func (n *node) servingConfig() nodecert.ServingConfig {
	s := n.opts.settings
	cfg := nodecert.ServingConfig{
		Node: n.opts.node, CertFile: s.TLSCertFile, KeyFile: s.TLSPrivateKeyFile, CertDir: n.opts.certDir(),
		Bootstrap: s.ServerTLSBootstrap && n.cluster != nil, MinVersion: s.TLSMinVersion, CipherSuites: s.TLSCipherSuites, Curves: s.TLSCurvePreferences,
		Metrics: n.registry, Logger: n.log,
	}
	if cfg.Bootstrap {
		cfg.Client, cfg.Addresses = n.cluster.api, n.cluster.addresses
	}
	return cfg
}

// addresses are the node's, as its status has them.
func (c *cluster) addresses() []v1.NodeAddress {
	if object := c.object(); object != nil {
		return object.Status.Addresses
	}
	return nil
}

// authority decides who may use the node's API.
func (n *node) authority() (*auth.Auth, error) {
	s := n.opts.settings
	cfg := auth.Config{
		NodeName: n.opts.node, ClientCAFile: s.Authentication.ClientCAFile, TokenTTL: s.Authentication.WebhookCacheTTL, Anonymous: s.Authentication.Anonymous,
		AlwaysAllow: s.Authorization.Mode == execconfig.AuthorizeAlways, AuthorizedTTL: s.Authorization.CacheAuthorizedTTL,
		UnauthorizedTTL: s.Authorization.CacheUnauthorizedTTL, Logger: n.log,
	}
	if n.cluster == nil {
		if !cfg.AlwaysAllow {
			return nil, errors.New("without --kubeconfig nobody says who may use the node's API: give it, or --authorization-mode=AlwaysAllow with --client-ca-file")
		}
	} else {
		// What strangers cause has a limit of its own.
		reviews, err := kubernetes.NewForConfig(n.cluster.reach.Config())
		if err != nil {
			return nil, err
		}
		cfg.AccessReviews = reviews.AuthorizationV1().SubjectAccessReviews()
		if s.Authentication.Webhook {
			cfg.TokenReviews = reviews.AuthenticationV1().TokenReviews()
		}
	}
	a, err := auth.New(cfg)
	if err != nil {
		return nil, fmt.Errorf("the node's API: %w", err)
	}
	return a, nil
}

// serveStreams serves logs, exec and the like with the runtime, until the returned function is called.
func (a *nodeAPI) serveStreams(n *node, r *runtime.Runtime) (stop func()) {
	if a == nil {
		return func() {}
	}
	cfg := stream.Config{
		Pods: n.board, Runtime: r, CheckpointsDir: filepath.Join(n.opts.RootDir, "checkpoints"),
		IdleTimeout: n.opts.settings.StreamingConnectionIdleTimeout, Registerer: n.registry, Logger: n.log,
	}
	if n.cluster != nil {
		cfg.MirrorUID = func(namespace, name string) types.UID {
			if m := n.cluster.mirrors.ByName(namespace, name); m != nil {
				return m.UID
			}
			return ""
		}
	}
	h := stream.New(cfg)
	a.streams.set(h)
	return h.Close
}

// serveStats serves what the node and its pods use, until the returned function is called.
func (a *nodeAPI) serveStats(n *node, c *connection, known *facts) (stop func()) {
	if a == nil {
		return func() {}
	}
	s := n.opts.settings
	counted := stats.New(stats.Config{
		Node: n.opts.node, Pods: &n.runtime, Board: n.board, Runtime: c.runtime, Images: c.images, PodsCgroup: podsCgroup(s, known.cgroupDriver),
		RootDir: n.opts.RootDir, PodsDir: podsDir(n.opts.RootDir), LogsDir: s.PodLogsDir, Logger: n.log,
	})
	a.stats[pathSummary].set(counted.SummaryHandler())
	a.stats[pathResource].set(counted.ResourceHandler())
	a.stats[pathCadvisor].set(counted.CadvisorHandler())
	return counted.Close
}

// loopHealth is nil if the sync loop turns.
func (n *node) loopHealth() error {
	if n.runtime.Load() == nil {
		return errNoRuntime
	}
	return n.agent.LoopHealth()
}

// List is part of server.Runtime.
func (l *lateRuntime) List(ctx context.Context) ([]*observed.Pod, error) {
	if r := l.Load(); r != nil {
		return r.List(ctx)
	}
	return nil, errNoRuntime
}

// lateHandler answers 503 until it has a handler.
type lateHandler struct{ handler atomic.Pointer[http.Handler] }

func (l *lateHandler) set(h http.Handler) { l.handler.Store(&h) }

func (l *lateHandler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if h := l.handler.Load(); h != nil {
		(*h).ServeHTTP(w, r)
		return
	}
	http.Error(w, errNoRuntime.Error(), http.StatusServiceUnavailable)
}
