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

	"golang.org/x/sync/errgroup"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podstream/podstream/internal/daemon"
	"github.com/podstream/podstream/internal/execconfig"
	"github.com/podstream/podstream/internal/execsvc/cluster/apiclient"
	"github.com/podstream/podstream/internal/execsvc/cluster/nodecert"
	"github.com/podstream/podstream/internal/execsvc/cri/runtime"
	"github.com/podstream/podstream/internal/execsvc/serve/kubeletapi"
	"github.com/podstream/podstream/internal/execsvc/serve/kubeletapi/auth"
	"github.com/podstream/podstream/internal/execsvc/serve/kubeletapi/stream"
	"github.com/podstream/podstream/internal/execsvc/serve/stats"
)

// nodeAPI is the kubelet's API on its ports. Endpoints that need the container runtime answer 503 until it has answered.
type nodeAPI struct {
	server  *kubeletapi.Server
	serving *nodecert.Serving
	backend *kubeletapi.Backend
}

// These are the paths of statistics.
const (
	pathSummary  = "/stats/summary"
	pathResource = "/metrics/resource"
	pathCadvisor = "/metrics/cadvisor"
)

// newNodeAPI listens on the node's ports. It returns nil if there are none.
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
	api := &nodeAPI{backend: &kubeletapi.Backend{}}
	cfg := kubeletapi.Config{
		Listeners: listeners, ReadOnly: readOnly, Health: health, Pods: n.board, Runtime: api.backend, Streams: api.backend.Streams(),
		Configuration: func() any { return s.KubeletConfiguration() }, Checks: map[string]func() error{"syncloop": api.backend.SyncLoop}, LogOutput: os.Stderr,
		Handlers: map[string]http.Handler{"/metrics": daemon.MetricsHandler(n.registry), "/metrics/probes": daemon.MetricsHandler(n.probePage())},
		Pages:    n.pages(),
		Debug: kubeletapi.Debug{
			Handlers: s.EnableDebuggingHandlers, SystemLogs: s.EnableSystemLogHandler, SystemLogQuery: s.EnableSystemLogQuery, LogDir: s.SystemLogDir,
			Profiling: s.EnableProfilingHandler, ContentionProfiling: s.EnableContentionProfiling,
		},
		Logger: n.log, Metrics: n.registry,
	}
	for _, path := range []string{pathSummary, pathResource, pathCadvisor} {
		cfg.Handlers[path] = api.backend.Handler(path)
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
	if api.server, err = kubeletapi.New(cfg); err != nil {
		return nil, fmt.Errorf("the node's API: %w", err)
	}
	return api, nil
}

// run has the group serve until ctx ends.
func (a *nodeAPI) run(ctx context.Context, group *errgroup.Group) {
	group.Go(func() error { return a.server.Run(ctx) })
	if a.serving != nil {
		group.Go(func() error { a.serving.Run(ctx); return nil })
	}
}

// servingConfig configures the serving certificate of the node's API.
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

// addresses returns the addresses in the Node's status.
func (c *cluster) addresses() []v1.NodeAddress {
	if object := c.node.Node(); object != nil {
		return object.Status.Addresses
	}
	return nil
}

// authority returns the authentication and authorization of the node's API.
func (n *node) authority() (*auth.Auth, error) {
	s := n.opts.settings
	cfg := auth.Config{
		NodeName: n.opts.node, ClientCAFile: s.Authentication.ClientCAFile, TokenTTL: s.Authentication.WebhookCacheTTL, Anonymous: s.Authentication.Anonymous,
		AlwaysAllow: s.Authorization.Mode == execconfig.AuthorizeAlways, AuthorizedTTL: s.Authorization.CacheAuthorizedTTL,
		UnauthorizedTTL: s.Authorization.CacheUnauthorizedTTL, Logger: n.log,
	}
	if n.cluster == nil {
		if !cfg.AlwaysAllow {
			return nil, errors.New("without --kubeconfig the node's API has no authorization: give it, or --authorization-mode=AlwaysAllow with --client-ca-file")
		}
	} else {
		// Access reviews have their own rate limit, and token reviews another one.
		access, err := apiclient.New(n.cluster.reach.Config())
		if err != nil {
			return nil, err
		}
		cfg.AccessReviews = access.AccessReviews()
		if s.Authentication.Webhook {
			tokens, err := apiclient.New(n.cluster.reach.Config())
			if err != nil {
				return nil, err
			}
			cfg.TokenReviews = tokens.TokenReviews()
		}
	}
	a, err := auth.New(cfg)
	if err != nil {
		return nil, fmt.Errorf("the node's API: %w", err)
	}
	return a, nil
}

// serveRuntime serves the endpoints that need the container runtime, until the returned function is called.
func (a *nodeAPI) serveRuntime(n *node, r *runtime.Runtime, usage *stats.Stats) (stop func()) {
	s := n.opts.settings
	cfg := stream.Config{
		Pods: n.board, Runtime: r, CheckpointsDir: filepath.Join(n.opts.RootDir, "checkpoints"),
		IdleTimeout: s.StreamingConnectionIdleTimeout, Registerer: n.registry, Logger: n.log,
	}
	if n.cluster != nil {
		cfg.MirrorUID = func(namespace, name string) types.UID {
			if m := n.cluster.mirrors.ByName(namespace, name); m != nil {
				return m.UID
			}
			return ""
		}
	}
	streams := stream.New(cfg)
	a.backend.Publish(kubeletapi.Endpoints{
		Runtime: r, Streams: streams, SyncLoop: n.agent.LoopHealth,
		Handlers: map[string]http.Handler{
			pathSummary: usage.SummaryHandler(), pathResource: usage.ResourceHandler(), pathCadvisor: usage.CadvisorHandler(),
		},
	})
	return streams.Close
}

// usage returns the stats of the node and its pods. Close it.
func (n *node) usage(c *connection, r *runtime.Runtime, known *facts, files stats.Files) *stats.Stats {
	s := n.opts.settings
	return stats.New(stats.Config{
		Node: n.opts.node, Capacity: known.info.Capacity, Allocatable: known.info.Allocatable,
		Pods: r, Board: n.board, Runtime: c.runtime, Images: c.images, PodsCgroup: podsCgroup(s, known.cgroupDriver),
		RootDir: n.opts.kubeletDir, PodDirs: n.podDirs, LogsDir: s.PodLogsDir, Files: files, Volumes: n.volumes.usage, Logger: n.log,
	})
}
