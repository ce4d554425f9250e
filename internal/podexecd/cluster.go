package podexecd

import (
	"context"
	"fmt"
	"log/slog"
	"path/filepath"
	"sync/atomic"

	"github.com/prometheus/client_golang/prometheus"
	"golang.org/x/sync/errgroup"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/podstream/podstream/internal/execsvc"
	"github.com/podstream/podstream/internal/execsvc/admit"
	"github.com/podstream/podstream/internal/execsvc/apistatus"
	"github.com/podstream/podstream/internal/execsvc/board"
	podcluster "github.com/podstream/podstream/internal/execsvc/cluster"
	"github.com/podstream/podstream/internal/execsvc/criconfig"
	"github.com/podstream/podstream/internal/execsvc/events"
	"github.com/podstream/podstream/internal/execsvc/events/apisink"
	"github.com/podstream/podstream/internal/execsvc/mirror"
	clusternode "github.com/podstream/podstream/internal/execsvc/node"
	"github.com/podstream/podstream/internal/execsvc/node/nodestatus"
	"github.com/podstream/podstream/internal/execsvc/nodecert"
	"github.com/podstream/podstream/internal/execsvc/nodeinfo"
	"github.com/podstream/podstream/internal/execsvc/podset"
	"github.com/podstream/podstream/internal/execsvc/token"
	"github.com/podstream/podstream/internal/failpoint/apipoints"
	podexecv1 "github.com/podstream/podstream/proto/podexec/v1"
)

// KubeletVersion is the Kubernetes whose node this is.
const KubeletVersion = "v" + probeVersion + ".2-podstream"

// cluster is what makes this node one of a cluster: how the API server is reached, and all that speaks to it. Nothing else waits for it. A nil
// cluster is none: the node stands alone.
type cluster struct {
	opts    *Options
	log     *slog.Logger
	metrics prometheus.Registerer
	reach   *nodecert.Client
	sink    *apisink.Sink
	// api has the rate limit of --kube-api-qps, unbounded none: the node's own heartbeats, and what strangers cause, don't compete with pods.
	api, unbounded kubernetes.Interface
	// pods and mirrors are the agent's.
	pods, mirrors *podset.Set
	// given is what pods take from the API server.
	given *podcluster.Cluster

	// These are made when the container runtime has answered.
	agent    *execsvc.Agent
	node     atomic.Pointer[clusternode.Node]
	statuses *apistatus.Writer
	keeper   *mirror.Keeper
}

// newCluster returns the cluster of --kubeconfig, nil without one. The file needn't be there yet.
func newCluster(opts *Options, metrics prometheus.Registerer, log *slog.Logger) (*cluster, error) {
	s := opts.settings
	if s.Kubeconfig == "" {
		return nil, nil
	}
	c := &cluster{opts: opts, log: log, metrics: metrics, pods: podset.New(), mirrors: podset.New()}
	c.reach = nodecert.NewClient(nodecert.ClientConfig{
		Node: opts.node, Kubeconfig: s.Kubeconfig, BootstrapKubeconfig: s.BootstrapKubeconfig, CertDir: opts.certDir(), Rotate: s.RotateCertificates,
		QPS: s.KubeAPIQPS, Burst: s.KubeAPIBurst, ContentType: s.ContentType, Metrics: metrics, Logger: log,
	})
	var err error
	if c.api, err = kubernetes.NewForConfig(c.requests()); err != nil {
		return nil, fmt.Errorf("--kubeconfig %s: %w", s.Kubeconfig, err)
	}
	if c.unbounded, err = kubernetes.NewForConfig(unbounded(c.requests())); err != nil {
		return nil, fmt.Errorf("--kubeconfig %s: %w", s.Kubeconfig, err)
	}
	c.given = podcluster.New(podcluster.Config{
		Client: c.unbounded, Wake: func(uid types.UID) { c.agent.Wake(uid) },
		Dir: filepath.Join(opts.RootDir, "cluster"), Server: func() string { return c.reach.Config().Host }, Logger: log,
	})
	c.sink, err = apisink.New(apisink.Config{REST: c.reach.Config(), Node: opts.node, QPS: s.EventQPS, Burst: s.EventBurst, Logger: log})
	if err != nil {
		return nil, fmt.Errorf("--kubeconfig %s: %w", s.Kubeconfig, err)
	}
	return c, nil
}

// recorder makes the recorder of events, which go to the API server too if there is one.
func (c *cluster) recorder() *events.Recorder {
	if c == nil {
		return events.New(events.Config{})
	}
	return events.New(events.Config{Sink: c.sink})
}

// tokens are those that the API server gives.
func (c *cluster) tokens() *token.Tokens {
	return token.New(token.Config{Requests: token.From(c.api.CoreV1()), Logger: c.log})
}

// close drops the events that wait.
func (c *cluster) close() {
	if c != nil {
		c.sink.Close()
	}
}

// requests is for the clients by which others learn of this node and its pods.
func (c *cluster) requests() *rest.Config {
	config := c.reach.Config()
	config.Wrap(apipoints.Around)
	return config
}

func unbounded(config *rest.Config) *rest.Config {
	config = rest.CopyConfig(config)
	config.QPS = -1
	// A warning, that an API will go, would be one for each request.
	config.WarningHandlerWithContext = rest.NoWarnings{}
	return config
}

// begin has the group do what doesn't wait for the container runtime, until ctx ends.
func (c *cluster) begin(ctx context.Context, group *errgroup.Group) {
	if c != nil {
		group.Go(func() error { c.reach.Run(ctx); return nil })
	}
}

// told is the agent's Config.Told.
func (c *cluster) told(pod *v1.Pod) {
	c.statuses.Wake(pod)
	c.keeper.Wake(pod)
}

// join adds to what the agent works with.
func (c *cluster) join(cfg *execsvc.Config) {
	if c == nil {
		return
	}
	cfg.Pods, cfg.Mirrors, cfg.Told, cfg.Final = c.pods, c.mirrors, c.told, criconfig.FromAPI
	alone := cfg.Node
	cfg.Node = func() admit.Node {
		n := alone()
		// Labels that aren't known yet keep no pod away: the scheduler knew them.
		n.Labels, n.Taints, n.Handler = nil, nil, c.given.Handler
		if object := c.object(); object != nil {
			n.Labels, n.Taints = object.Labels, object.Spec.Taints
		}
		return n
	}
}

// object is the Node object, or nil while it isn't known.
func (c *cluster) object() *v1.Node {
	if n := c.node.Load(); n != nil {
		return n.Node()
	}
	return nil
}

func (c *cluster) uid() types.UID {
	if object := c.object(); object != nil {
		return object.UID
	}
	return ""
}

// machine is what the cluster is told of this machine and its runtime.
type machine struct {
	connection *connection
	agent      *execsvc.Agent
	info       func() nodeinfo.Info
	ips        *clusternode.Addresses
	pressure   func() nodestatus.Pressure
}

// prepare makes all that join needs; it comes before the agent, of which m may not know yet.
func (c *cluster) prepare(b *board.Board) {
	if c == nil {
		return
	}
	core := c.api.CoreV1().RESTClient()
	c.statuses = apistatus.New(apistatus.Config{
		Client: core, Board: b, Pod: c.pods.Get, Mirror: c.mirrors.ByName, Metrics: c.metrics, Logger: c.log,
	})
	c.keeper = mirror.New(mirror.Config{
		Client: core, Node: c.opts.node, NodeUID: c.uid, Pods: c.pods, Mirrors: c.mirrors, Settled: c.pods.Settled,
		Ending: func(namespace, name string) bool { return ending(b, namespace, name) },
		Lives:  func(uid types.UID) bool { return lives(b, uid) }, Metrics: c.metrics, Logger: c.log,
	})
}

// ending tells whether a pod of that name that isn't the API server's own is on its way out.
func ending(b *board.Board, namespace, name string) bool {
	for _, p := range b.All() {
		if p.Name == name && p.Namespace == namespace && !p.Desired && (p.Object == nil || !criconfig.FromAPI(p.Object)) &&
			p.State != podexecv1.WorkerState_WORKER_STATE_FINISHED && p.State != podexecv1.WorkerState_WORKER_STATE_UNSPECIFIED {
			return true
		}
	}
	return false
}

// lives tells whether the pod hasn't ended, as far as its status is known.
func lives(b *board.Board, uid types.UID) bool {
	p, there := b.Get(uid)
	return there && p.Status != nil && len(p.Status.Conditions) > 0 && p.Status.Phase != v1.PodSucceeded && p.Status.Phase != v1.PodFailed
}

// run has the group do all that a cluster sees of this node, until ctx ends.
func (c *cluster) run(ctx context.Context, group *errgroup.Group, m machine) {
	if c == nil {
		return
	}
	s := c.opts.settings
	var n *clusternode.Node
	watch := clusternode.NewRuntimeWatch(clusternode.RuntimeConfig{
		Status: func(ctx context.Context) (*runtimeapi.StatusResponse, error) {
			return m.connection.runtime.Status(ctx, false)
		},
		Version: func(ctx context.Context) (*runtimeapi.VersionResponse, error) {
			return m.connection.runtime.Version(ctx, "v1")
		},
		PLEG: m.agent.PLEGStalled, Changed: func() { n.Wake() },
	})
	var port int32
	if s.EnableServer {
		port = int32(s.Port) //nolint:gosec // The settings were checked.
	}
	n = clusternode.New(clusternode.Config{
		Client: c.unbounded, Name: c.opts.node, Hostname: c.opts.node, Register: s.RegisterNode, Taints: s.RegisterWithTaints,
		ProviderID: s.ProviderID, NodeIPs: s.NodeIPs, ExternalCloud: s.ExternalCloud, AttachDetach: true, IPs: m.ips.IPs, Info: m.info,
		KubeletVersion: KubeletVersion, Port: port,
		Images: func(ctx context.Context) ([]*runtimeapi.Image, error) {
			images, err := m.connection.images.ListImages(ctx, nil)
			return images, err
		},
		MaxImages: &s.NodeStatusMaxImages, Runtime: watch.State, Pressure: m.pressure,
		PodCIDRs: func(ctx context.Context, cidrs string) error {
			return m.connection.runtime.UpdateRuntimeConfig(ctx, &runtimeapi.RuntimeConfig{NetworkConfig: &runtimeapi.NetworkConfig{PodCidr: cidrs}})
		},
		Event: c.event, UpdateFrequency: s.NodeStatusUpdateFrequency, ReportFrequency: s.NodeStatusReportFrequency,
		LeaseDuration: s.NodeLeaseDuration, Metrics: c.metrics, Logger: c.log,
	})
	c.node.Store(n)
	c.agent = m.agent
	group.Go(func() error { c.given.Run(ctx); return nil })
	group.Go(func() error { watch.Run(ctx); return nil })
	group.Go(func() error { n.Run(ctx); return nil })
	group.Go(func() error { c.statuses.Run(ctx); return nil })
	group.Go(func() error { c.keeper.Run(ctx); return nil })
}
